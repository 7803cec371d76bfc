#include "tools/foretrain.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <ostream>
#include <vector>

#include "scenarios/problems.h"
#include "scenarios/scenario.h"
#include "sim/simulate.h"
#include "tools/cli/options.h"
#include "tools/commands/command.h"
#include "tools/version.h"

namespace foretrain {
namespace {

std::string general_help() {
  std::string text =
      "foretrain rehearses a training run: give it a model, a parallelism plan and a cluster, and it plays one\n"
      "training step event by event and says how long it takes, where the time goes and whether it fits.\n\n"
      "Usage: foretrain COMMAND [options]\n\nCommands:\n";
  for (const Command& command : commands()) text += fmt::format("  {:<12}{}\n", command.name, command.summary);
  text +=
      "\nOptions:\n"
      "  --help      this text; after a command: its options\n"
      "  --version   the version\n\n"
      "FORETRAIN_LOG=debug in the environment makes it say what it is doing, on standard error.\n"
      "Exit status: 0 done; 1 a simulation that cannot finish (deadlock); 2 bad input or usage; 3 a fault of "
      "foretrain.\n\n"
      "Examples:\n"
      "  foretrain run scenarios/llama3-8b-one-node.yaml\n"
      "  foretrain run --help\n";
  return text;
}

[[noreturn]] void unknown_word(const std::string& word) {
  std::vector<std::string> names;
  for (const Command& command : commands()) names.emplace_back(command.name);
  const bool option = word.starts_with('-');
  if (option) names = {"--help", "--version"};
  throw UsageError(fmt::format("foretrain: unknown {} '{}'{}; allowed: {}", option ? "option" : "command", shown(word),
                               suggestion(word, names), fmt::join(names, ", ")));
}

int dispatch(std::span<const std::string> args, const Console& console) {
  if (args.empty()) {
    console.err << general_help();
    return 2;
  }
  const std::string& word = args.front();
  if (word == "--help" || word == "-h" || word == "help") {
    console.out << general_help();
    return 0;
  }
  if (word == "--version") {
    console.out << "foretrain " << version() << '\n';
    return 0;
  }
  for (const Command& command : commands()) {
    if (command.name == word) return command.run(args.subspan(1), console);
  }
  unknown_word(word);
}

}  // namespace

int run_command(std::span<const std::string> args, const Console& console) {
  try {
    const int status = dispatch(args, console);
    console.out.flush();
    if (!console.out) throw InputError("foretrain: standard output could not be written");
    return status;
  } catch (const Deadlock& e) {
    console.err << e.what() << '\n';
    return 1;
  } catch (const InputError& e) {
    console.err << e.what() << '\n';
    return 2;
  } catch (const std::exception& e) {
    console.err << "foretrain: internal error: " << e.what() << '\n';
    return 3;
  }
}

}  // namespace foretrain
