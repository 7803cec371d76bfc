// Large blocks of memory come in huge pages where the kernel gives them to those who ask (transparent_hugepage
// "madvise", what Debian and most others set). A run of a hundred thousand GPUs walks tables of gigabytes link by link:
// in pages of 4 KiB a third of its time goes into page faults and missed address translations, on a virtual machine
// more.
#include "tools/huge_pages.h"

#include <malloc.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <new>

// The address sanitizer has an allocator of its own, which must see every block.
#if defined(__SANITIZE_ADDRESS__)
#define FORETRAIN_OWN_ALLOCATOR 0
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define FORETRAIN_OWN_ALLOCATOR 0
#endif
#endif
#ifndef FORETRAIN_OWN_ALLOCATOR
#define FORETRAIN_OWN_ALLOCATOR 1
#endif

#if FORETRAIN_OWN_ALLOCATOR
namespace {

constexpr std::size_t huge_page = std::size_t{2} << 20;  ///< of x86-64, and of arm64 with pages of 4 KiB
constexpr std::size_t large = 2 * huge_page;

void* allocate(std::size_t size) {
  if (size < large) return std::malloc(std::max<std::size_t>(size, 1));
  const std::size_t whole = (size + huge_page - 1) / huge_page * huge_page;
  void* block = std::aligned_alloc(huge_page, whole);
  if (block != nullptr) madvise(block, whole, MADV_HUGEPAGE);  // advice: it does no harm where it is not taken
  return block;
}

}  // namespace

void* operator new(std::size_t size) {
  if (void* block = allocate(size)) return block;
  throw std::bad_alloc();
}
void operator delete(void* block) noexcept { std::free(block); }
void operator delete(void* block, std::size_t) noexcept { std::free(block); }
#endif

void foretrain::keep_freed_memory() {
  mallopt(M_MMAP_MAX, 0);
  mallopt(M_TRIM_THRESHOLD, -1);
}
