// PerRank: a value of every rank, kept once for all ranks of a class.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <utility>
#include <vector>

namespace foretrain {

/// Reads like a constant vector by rank.
template <class Value>
class PerRank {
 public:
  PerRank() = default;
  /// `class_of` by rank: into `values`.
  PerRank(std::vector<Value> values, std::shared_ptr<const std::vector<std::uint32_t>> class_of)
      : values_(std::move(values)), class_of_(std::move(class_of)) {}

  [[nodiscard]] std::size_t size() const { return class_of_ ? class_of_->size() : 0; }
  [[nodiscard]] bool empty() const { return size() == 0; }
  [[nodiscard]] const Value& operator[](std::size_t rank) const { return values_[(*class_of_)[rank]]; }
  [[nodiscard]] const Value& front() const { return (*this)[0]; }

  class Iterator {
   public:
    using iterator_category = std::forward_iterator_tag;
    using value_type = Value;
    using difference_type = std::ptrdiff_t;
    using pointer = const Value*;
    using reference = const Value&;
    Iterator() = default;
    Iterator(const PerRank* of, std::size_t rank) : of_(of), rank_(rank) {}
    reference operator*() const { return (*of_)[rank_]; }
    pointer operator->() const { return &(*of_)[rank_]; }
    Iterator& operator++() {
      ++rank_;
      return *this;
    }
    Iterator operator++(int) {
      Iterator before = *this;
      ++rank_;
      return before;
    }
    friend bool operator==(const Iterator&, const Iterator&) = default;

   private:
    const PerRank* of_ = nullptr;
    std::size_t rank_ = 0;
  };
  [[nodiscard]] Iterator begin() const { return {this, 0}; }
  [[nodiscard]] Iterator end() const { return {this, size()}; }

  /// By class: what there is to see of it once.
  [[nodiscard]] const std::vector<Value>& values() const { return values_; }
  [[nodiscard]] const std::vector<std::uint32_t>& class_of() const { return *class_of_; }

 private:
  std::vector<Value> values_;
  std::shared_ptr<const std::vector<std::uint32_t>> class_of_;
};

}  // namespace foretrain
