// Models of the catalogue by themselves, without a scenario around them.
#pragma once

#include "scenarios/catalogue.h"
#include "scenarios/sections.h"
#include "tests/scenarios/support.h"

namespace foretrain::testing {

inline std::vector<std::string> model_names() { return Catalogue(catalogue()).names(Shelf::models); }

/// Throws InputError.
inline Model catalogue_model(const std::string& name) {
  const Catalogue shelf(catalogue());
  Problems problems;
  YamlNode asked;
  asked.kind = YamlNode::Kind::scalar;
  asked.place.source = problems.source("t", name, ".");
  asked.scalar = name;
  const std::optional<YamlNode> map = shelf.resolve(asked, Shelf::models, "model", problems);
  problems.throw_if_any();
  const Model model = read_model(*map, {shelf, problems});
  problems.throw_if_any();
  return model;
}

}  // namespace foretrain::testing
