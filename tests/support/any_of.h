// One of a few numbers, chosen by RapidCheck.
#pragma once

#include <rapidcheck.h>

#include <initializer_list>
#include <vector>

namespace foretrain {

template <class Number>
Number any_of(std::initializer_list<Number> numbers) {
  return *rc::gen::elementOf(std::vector<Number>(numbers));
}

}  // namespace foretrain
