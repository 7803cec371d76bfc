#include "scenarios/xml_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "scenarios/problems.h"

namespace foretrain {
namespace {

void check_markup(const InputText& input, std::size_t marks_most) {
  const std::string_view text = input.text();
  for (const char mark : {'<', '='}) {
    const auto count = std::count(text.begin(), text.end(), mark);
    if (count > static_cast<std::ptrdiff_t>(marks_most)) {
      input.fail(0, fmt::format("{} elements or attributes; allowed: at most {}", count, marks_most));
    }
  }
}

}  // namespace

XmlText::XmlText(const InputText& input, std::size_t marks_most) : input_(input) {
  check_markup(input, marks_most);
  const std::string_view text = input.text();
  const pugi::xml_parse_result parsed =
      document_.load_buffer(text.data(), text.size(), pugi::parse_default | pugi::parse_doctype, pugi::encoding_utf8);
  if (!parsed) {
    std::string reason = parsed.description();
    std::replace(reason.begin(), reason.end(), '\n', ' ');
    input.fail(static_cast<std::size_t>(std::max<std::ptrdiff_t>(parsed.offset, 0)),
               fmt::format("not well-formed XML: {}; allowed: an XML text, whole", reason));
  }
  for (const pugi::xml_node child : document_.children()) {
    if (child.type() == pugi::node_doctype && std::string_view(child.value()).find('[') != std::string_view::npos) {
      input.fail(text.find("<!DOCTYPE"), "the document type declares entities or elements; allowed: none");
    }
    if (child.type() != pugi::node_element) continue;
    if (root_) fail(child, fmt::format("a second root '{}'; allowed: one", shown(child.name())));
    root_ = child;
  }
  if (!root_) input.fail(0, "there is no element; allowed: an XML text");
}

std::size_t XmlText::offset(pugi::xml_node element) const {
  const std::ptrdiff_t at = element.offset_debug();
  return at > 0 ? static_cast<std::size_t>(at) - 1 : 0;  // of the '<' before the name
}

void XmlText::fail(pugi::xml_node at, const std::string& message) const { input_.fail(offset(at), message); }

const char* XmlText::required(pugi::xml_node element, const char* attribute) const {
  const char* value = element.attribute(attribute).value();
  if (*value == '\0') {
    fail(element, fmt::format("'{}' has no '{}'; allowed: one with it", shown(element.name()), attribute));
  }
  return value;
}

}  // namespace foretrain
