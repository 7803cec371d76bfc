// Syntax: what a command accepts, on Boost.Program_options; parsing, help and the messages of misuse in one place.
//
//   Syntax syntax("run", "run SCENARIO.yaml [options]", "plays a scenario");
//   syntax.positional("scenario", "SCENARIO.yaml");
//   syntax.options.add_options()("json", po::value<std::string>()->value_name("FILE"), "write the result");
//   syntax.examples = {"run scenarios/llama3-8b-one-node.yaml"};
//   auto values = syntax.parse(args, console.out);     // nothing after --help
//   if (!values) return 0;
#pragma once

#include <boost/program_options/options_description.hpp>
#include <boost/program_options/positional_options.hpp>
#include <boost/program_options/variables_map.hpp>
#include <iosfwd>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "scenarios/scenario.h"

namespace foretrain {

namespace po = boost::program_options;

/// A mistake on the command line; the message names the command and what is allowed.
class UsageError : public InputError {
 public:
  using InputError::InputError;
};

class Syntax {
 public:
  Syntax(std::string command, std::string usage, std::string about);

  /// A word that has to be there, by position; read as values[key].
  void positional(const std::string& key, const std::string& shown);

  /// Nothing after `--help`, which is written to `out`. Throws UsageError.
  [[nodiscard]] std::optional<po::variables_map> parse(std::span<const std::string> args, std::ostream& out) const;
  [[nodiscard]] std::string help() const;
  /// "foretrain run: MESSAGE"
  [[nodiscard]] UsageError error(const std::string& message) const;

  po::options_description options;
  std::vector<std::string> examples;  ///< without the leading "foretrain "

 private:
  struct Positional {
    std::string key, shown;
  };
  [[nodiscard]] po::variables_map read(std::span<const std::string> args) const;
  [[nodiscard]] std::vector<std::string> option_names() const;

  std::string command_, usage_, about_;
  po::options_description hidden_;
  po::positional_options_description positions_;
  std::vector<Positional> positionals_;
};

}  // namespace foretrain
