#include "tools/cli/options.h"

#include <fmt/core.h>

#include <boost/program_options/parsers.hpp>
#include <ostream>
#include <sstream>
#include <utility>

#include "scenarios/problems.h"

namespace foretrain {
namespace {

// Columns of the help text: one line an option.
constexpr unsigned help_columns = 200;
constexpr unsigned help_description_columns = 90;

/// No guessing: an abbreviated option that works today could mean something else tomorrow.
int command_line_style() {
  using namespace po::command_line_style;  // NOLINT(google-build-using-namespace): a namespace of flags
  return unix_style & ~allow_guessing;
}

}  // namespace

Syntax::Syntax(std::string command, std::string usage, std::string about)
    : options("Options", help_columns, help_description_columns),
      command_(std::move(command)),
      usage_(std::move(usage)),
      about_(std::move(about)) {
  options.add_options()("help,h", "show this text");
}

void Syntax::positional(const std::string& key, const std::string& shown) {
  hidden_.add_options()(key.c_str(), po::value<std::string>());
  positions_.add(key.c_str(), 1);
  positionals_.push_back({key, shown});
}

UsageError Syntax::error(const std::string& message) const {
  return UsageError(fmt::format("foretrain {}: {}", command_, message));
}

std::vector<std::string> Syntax::option_names() const {
  std::vector<std::string> names;
  for (const auto& option : options.options()) names.push_back("--" + option->long_name());
  return names;
}

po::variables_map Syntax::read(std::span<const std::string> args) const {
  po::options_description all;
  all.add(options).add(hidden_);
  po::variables_map values;
  po::store(po::command_line_parser(std::vector<std::string>(args.begin(), args.end()))
                .options(all)
                .positional(positions_)
                .style(command_line_style())
                .run(),
            values);
  if (values.count("help") == 0) po::notify(values);
  return values;
}

std::optional<po::variables_map> Syntax::parse(std::span<const std::string> args, std::ostream& out) const {
  po::variables_map values;
  try {
    values = read(args);
  } catch (const po::unknown_option& e) {
    const std::string& name = e.get_option_name();
    throw error(fmt::format("unknown option '{}'{}; `foretrain {} --help` lists them", shown(name),
                            suggestion(name, option_names()), command_));
  } catch (const po::too_many_positional_options_error&) {
    throw error(fmt::format("too many arguments; usage: foretrain {}", usage_));
  } catch (const po::error& e) {
    throw error(fmt::format("{}; usage: foretrain {}", e.what(), usage_));
  }
  if (values.count("help") > 0) {
    out << help();
    return std::nullopt;
  }
  for (const Positional& p : positionals_) {
    if (values.count(p.key) == 0) throw error(fmt::format("{} is missing; usage: foretrain {}", p.shown, usage_));
  }
  return values;
}

std::string Syntax::help() const {
  std::ostringstream text;
  text << "foretrain " << command_ << ": " << about_ << "\n\nUsage: foretrain " << usage_ << "\n\n" << options;
  text << "\nExamples:\n";
  for (const std::string& example : examples) text << "  foretrain " << example << '\n';
  return text.str();
}

}  // namespace foretrain
