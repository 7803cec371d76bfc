// Words of a model's YAML that stand for more than one value of Model, or for one of several.
#pragma once

#include <cstdint>
#include <string_view>

#include "workloads/model.h"

namespace foretrain {

/// Linear layers that may add a bias: the members of Biases.
enum class BiasedLayer : std::uint8_t { qkv, projection, mlp, router };
inline constexpr BiasedLayer all_biased_layers[] = {BiasedLayer::qkv, BiasedLayer::projection, BiasedLayer::mlp,
                                                    BiasedLayer::router};

/// `qk_norm`: no norm of Q and K; one over each head; one over all heads together.
enum class HeadNorm : std::uint8_t { none, head, all_heads };
inline constexpr HeadNorm all_head_norms[] = {HeadNorm::none, HeadNorm::head, HeadNorm::all_heads};

[[nodiscard]] constexpr std::string_view to_text(BiasedLayer layer) {
  switch (layer) {
    case BiasedLayer::qkv:
      return "qkv";
    case BiasedLayer::projection:
      return "projection";
    case BiasedLayer::mlp:
      return "mlp";
    case BiasedLayer::router:
      return "router";
  }
  return "";
}

[[nodiscard]] constexpr std::string_view to_text(HeadNorm norm) {
  switch (norm) {
    case HeadNorm::none:
      return "none";
    case HeadNorm::head:
      return "head";
    case HeadNorm::all_heads:
      return "all_heads";
  }
  return "";
}

[[nodiscard]] constexpr bool Biases::*member_of(BiasedLayer layer) {
  switch (layer) {
    case BiasedLayer::qkv:
      return &Biases::qkv;
    case BiasedLayer::projection:
      return &Biases::projection;
    case BiasedLayer::mlp:
      return &Biases::mlp;
    case BiasedLayer::router:
      return &Biases::router;
  }
  return nullptr;
}

[[nodiscard]] constexpr HeadNorm head_norm_of(const Model& model) {
  if (!model.qk_norm) return HeadNorm::none;
  return model.qk_norm_wide ? HeadNorm::all_heads : HeadNorm::head;
}

}  // namespace foretrain
