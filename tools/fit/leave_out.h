// leave_out: how well rows are predicted by constants that were fitted without them.
#pragma once

#include <string>
#include <vector>

#include "tools/fit/fit.h"

namespace foretrain {

/// `what`: a family; "families": each in turn; "groups": each of eight folds of configurations (family x GPU x model x
/// precision). The fit without some rows is solved on slopes measured with all of them, around the values at hand; the
/// rows left out are then simulated with its constants. Rows not left out have no prediction. Throws InputError for a
/// family that is not there.
[[nodiscard]] Validation leave_out(const Fit& fit, const std::string& what);

/// The same of runs from scratch, with the parameters that the catalogue lists, around the values of its files.
[[nodiscard]] Validation leave_out(const std::vector<PublishedRun>& runs, const std::string& what,
                                   const std::filesystem::path& catalogue, const FitOptions& options);

}  // namespace foretrain
