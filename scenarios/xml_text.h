// XmlText: an XML text of bounded size as a pugixml tree whose elements know where they stand.
//
// Refused: several roots, a document type with declarations of its own (entity bombs; pugixml would not expand them
// anyway), and more markup than `marks_most`, which bounds the memory of the tree (about 100 bytes a mark).
#pragma once

#include <cstddef>
#include <pugixml.hpp>
#include <string>

#include "scenarios/input_text.h"

namespace foretrain {

class XmlText {
 public:
  /// Throws InputError. The input must outlive this.
  XmlText(const InputText& input, std::size_t marks_most);

  [[nodiscard]] pugi::xml_node root() const { return root_; }
  [[nodiscard]] std::size_t offset(pugi::xml_node element) const;
  [[noreturn]] void fail(pugi::xml_node at, const std::string& message) const;
  /// The attribute; a mistake if it is absent or empty.
  [[nodiscard]] const char* required(pugi::xml_node element, const char* attribute) const;

 private:
  const InputText& input_;
  pugi::xml_document document_;
  pugi::xml_node root_;
};

}  // namespace foretrain
