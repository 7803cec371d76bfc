// The step times of a validation as a picture: predicted against published, both axes logarithmic, a colour a family.
#pragma once

#include <string>

#include "tools/validate/validation.h"

namespace foretrain {

/// One SVG document that needs no other file; every point says on hovering which run it is.
[[nodiscard]] std::string validation_plot(const Validation& validation);

}  // namespace foretrain
