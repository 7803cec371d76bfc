// The catalogue: everything in it loads, says what its sources say, and can be built.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "scenarios/catalogue.h"
#include "tests/scenarios/support.h"

namespace foretrain {
namespace {

using namespace foretrain::testing;
using ::testing::HasSubstr;

std::vector<std::string> names(Shelf shelf) { return Catalogue(catalogue()).names(shelf); }

TEST(CatalogueShelves, HoldWhatTheDesignNames) {
  EXPECT_THAT(names(Shelf::gpus),
              ::testing::IsSupersetOf({"a100-40gb", "a100-80gb", "b200", "gb200", "h100-80gb", "h200", "h800", "mi300x",
                                       "tpu-v4", "tpu-v5p", "v100-32gb"}));
  EXPECT_THAT(names(Shelf::clusters),
              ::testing::IsSupersetOf({"dgx-a100-hdr", "dgx-b200-ndr", "dgx-h100-ndr", "dgx-h200-ndr", "gb200-nvl72",
                                       "h100-efa", "h100-roce-clos", "h800-ib", "mi300x-roce", "tpu-v4-pod",
                                       "tpu-v5p-pod", "dgx1-v100", "dragonfly-slingshot", "two-sites-h100",
                                       "gb200-nvl576", "h100-nvlink-256"}));
  EXPECT_THAT(names(Shelf::models),
              ::testing::IsSupersetOf({"gpt3-175b", "llama2-7b", "llama2-13b", "llama2-70b", "llama3-8b", "llama3-70b",
                                       "llama3-405b", "gpt-1.7b", "gpt-3.6b", "gpt-7.5b", "gpt-18b", "gpt-39b",
                                       "gpt-76b", "gpt-145b", "gpt-310b", "gpt-530b", "gpt-1t"}));
  EXPECT_THAT(names(Shelf::scenarios),
              ::testing::IsSupersetOf({"gpt3-175b-selene", "gpt3-175b-selene-full", "llama3-405b",
                                       "llama3-405b-8k-gpus", "llama3-8b-one-node", "megatron-1t"}));
}

TEST(CatalogueShelves, EveryModelLoadsUnderItsName) {
  for (const std::string& name : names(Shelf::models)) {
    EXPECT_EQ(parse(good, {"model=" + name, "training.sequence_length=1024", "parallelism.tp=1", "parallelism.dp=16"})
                  .model.name,
              name);
  }
}

TEST(CatalogueShelves, EveryGpuLoadsAndStaysBelowItsDataSheet) {
  for (const std::string& name : names(Shelf::gpus)) {
    const Gpu gpu = parse(good, {"cluster.gpu=" + name}).cluster.gpu;
    EXPECT_EQ(gpu.name, name);
    EXPECT_LT(gpu.matmul, gpu.peak) << name;
    EXPECT_LE(gpu.matmul_fp8, gpu.peak_fp8) << name;
    EXPECT_LE(gpu.matmul_fp4, gpu.peak_fp4) << name;
    EXPECT_LT(gpu.flash_attention, gpu.peak) << name;
    EXPECT_LT(gpu.memory_achieved, gpu.memory) << name;
    EXPECT_LT(gpu.memory_usable, gpu.memory_size) << name;
  }
}

TEST(CatalogueShelves, EveryTransportLoads) {
  for (const std::string& name : names(Shelf::node_transports)) {
    EXPECT_EQ(mistakes(good, {"cluster.transport.node=" + name}), "");
  }
  for (const std::string& name : names(Shelf::network_transports)) {
    EXPECT_EQ(mistakes(good, {"cluster.transport.network=" + name}), "");
  }
}

TEST(CatalogueShelves, EveryClusterLoadsAndBuilds) {
  for (const std::string& name : names(Shelf::clusters)) {
    const Cluster cluster = load_cluster(name, catalogue());
    EXPECT_EQ(cluster.name, name);
    const bool torus = std::holds_alternative<TorusSpec>(cluster.fabric);
    const std::int64_t gpus = torus ? cluster.max_gpus : 144;  // whole nodes of 8 and of 72
    EXPECT_EQ(build_fabric(cluster, gpus).gpu_count(), static_cast<std::size_t>(gpus)) << name;
  }
}

TEST(CatalogueShelves, LargestClustersHaveThePublishedSizes) {
  EXPECT_EQ(load_cluster("h100-roce-clos", catalogue()).max_gpus, 8 * 192 * 16);  // pods, racks, GPUs: 24,576
  EXPECT_EQ(load_cluster("clusters/dgx-h100-ndr", catalogue()).max_gpus, 64 * 32 * 8);
  EXPECT_GE(load_cluster("dgx-a100-hdr", catalogue()).max_gpus, 3072);
}

TEST(CatalogueShelves, ClusterThatIsNotThere) {
  try {
    static_cast<void>(load_cluster("dgx-h100-ndrs", catalogue()));
    FAIL();
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(), HasSubstr("'dgx-h100-ndrs' cannot be read: not in the catalogue, did you mean "
                                        "'dgx-h100-ndr'?; allowed: a path to a YAML file, or one of dgx-a100-hdr, "));
  }
}

// Published totals: Narayanan 2021, Table 1 (its formula P = 12 l h^2 (1 + 13/(12h) + (V + s)/(12 l h))).
TEST(CatalogueModels, NarayananParameterCounts) {
  const std::pair<const char*, double> published[] = {
      {"gpt-1.7b", 1.7e9}, {"gpt-3.6b", 3.6e9},   {"gpt-7.5b", 7.5e9},   {"gpt-18b", 18.4e9},   {"gpt-39b", 39.1e9},
      {"gpt-76b", 76.1e9}, {"gpt-145b", 145.6e9}, {"gpt-310b", 310.1e9}, {"gpt-530b", 529.6e9}, {"gpt-1t", 1008.0e9}};
  for (const auto& [name, parameters] : published) {
    const Model m = parse(good, {std::string("model=") + name, "training.sequence_length=2048", "parallelism.tp=1",
                                 "parallelism.dp=16"})
                        .model;
    const double l = static_cast<double>(m.layers), h = static_cast<double>(m.hidden);
    const double formula = 12 * l * h * h * (1 + 13 / (12 * h) + (51200.0 + 2048.0) / (12 * l * h));
    EXPECT_NEAR(static_cast<double>(m.parameters()), formula, 1e-4 * formula) << name;
    EXPECT_NEAR(formula, parameters, 0.05e9 + 0.02 * parameters) << name;  // printed with one decimal, rounded names
  }
}

// Meta's model cards and the release's own tensors.
TEST(CatalogueModels, LlamaParameterCounts) {
  const std::pair<const char*, std::int64_t> published[] = {
      {"llama2-7b", 6'738'415'616}, {"llama2-13b", 13'015'864'320}, {"llama2-70b", 68'976'648'192},
      {"llama3-8b", 8'030'261'248}, {"llama3-70b", 70'553'706'496}, {"llama3-405b", 405'853'388'800}};
  for (const auto& [name, parameters] : published) {
    EXPECT_EQ(parse(good, {std::string("model=") + name}).model.parameters(), parameters) << name;
  }
}

TEST(CatalogueTransport, RingRateFollowsTheNodesNvlink) {
  const NodeTransport h100 = load_cluster("dgx-h100-ndr", catalogue()).transport.node;
  const NodeTransport h800 = load_cluster("h800-ib", catalogue()).transport.node;
  EXPECT_EQ(h800.line, gigabytes_per_second(200));
  EXPECT_EQ(h800.ring_rate, scaled(h100.ring_rate, 200.0 / 450.0));
}

TEST(CatalogueUse, RelativePathsStartAtTheFileThatHoldsThem) {
  const auto folder = std::filesystem::temp_directory_path() / "foretrain-relative-path-test";
  std::filesystem::create_directories(folder / "parts");
  std::ofstream(folder / "parts" / "tiny.yaml") << "use: ./half.yaml\nlayers: 2\n";
  std::ofstream(folder / "parts" / "half.yaml") << "use: llama3-8b\nlayers: 16\nvocabulary: 1024\n";
  std::ofstream(folder / "s.yaml") << good_with("llama3-8b", "parts/tiny.yaml");
  const Scenario s = load_scenario(folder / "s.yaml", {}, catalogue());
  EXPECT_EQ(s.model.layers, 2);
  EXPECT_EQ(s.model.vocabulary, 1024);
  EXPECT_EQ(s.model.hidden, 4096);
  std::filesystem::remove_all(folder);
}

TEST(CatalogueFolder, EnvironmentChoosesIt) {
  ASSERT_EQ(setenv("FORETRAIN_CATALOGUE", "/somewhere/else", 1), 0);
  EXPECT_EQ(default_catalogue(), "/somewhere/else");
  ASSERT_EQ(unsetenv("FORETRAIN_CATALOGUE"), 0);
  EXPECT_TRUE(std::filesystem::is_directory(default_catalogue() / "gpus"));
}

}  // namespace
}  // namespace foretrain
