// Do lists with messages run where a message needs both sides at once and a rank has one under way at a time?
#include "workloads/schedules/runtime.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <deque>
#include <map>
#include <set>
#include <tuple>

#include "tests/workloads/schedules/specs.h"

namespace foretrain {
namespace {

/// A message by the pass and stage that sends it.
using Message = std::tuple<bool, std::int64_t, std::int32_t>;

bool receives(const RuntimeAction& a) {
  return a.pass == RuntimePass::receive_forward || a.pass == RuntimePass::receive_backward;
}

Message message_of(const RuntimeAction& a) {
  const bool forward = a.pass == RuntimePass::send_forward || a.pass == RuntimePass::receive_forward;
  const std::int64_t sender = receives(a) ? a.stage + (forward ? -1 : 1) : a.stage;
  return {forward, sender, *a.microbatch};
}

/// A rank goes through its list: a message joins its queue and is not waited for, a compute waits for what it receives.
/// A message runs when it is the first in the queues of both its ranks.
class Rendezvous {
 public:
  Rendezvous(const RuntimeLists& lists, const PipelineShape& shape)
      : lists_(lists), shape_(shape), cursors_(lists.size()), queues_(lists.size()) {}

  bool runs_to_the_end() {
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t r = 0; r < lists_.size(); ++r)
        while (issue(r)) moved = true;
      while (exchange()) moved = true;
    }
    for (std::size_t r = 0; r < lists_.size(); ++r)
      if (cursors_[r] < lists_[r].size() || !queues_[r].empty()) return false;
    return true;
  }

 private:
  bool issue(std::size_t r) {
    if (cursors_[r] == lists_[r].size()) return false;
    const RuntimeAction& a = lists_[r][cursors_[r]];
    if (computes(a.pass)) {
      if (!ready(r, a)) return false;
    } else {
      queues_[r].push_back(message_of(a));
    }
    ++cursors_[r];
    return true;
  }

  bool ready(std::size_t r, const RuntimeAction& a) const {
    const auto rank = static_cast<std::int64_t>(r);
    const Holder here = holder_of(shape_, a.stage, *a.microbatch);
    const Action action{static_cast<Pass>(a.pass), here.chunk, *a.microbatch};
    const auto from = sender_to(shape_, rank, action);
    if (!from || from->rank == rank) return true;  // order on one rank is verified elsewhere
    const bool forward = action.pass == Pass::forward;
    return arrived_.contains({forward, a.stage + (forward ? -1 : 1), *a.microbatch});
  }

  bool exchange() {
    std::map<Message, std::size_t> first;
    for (std::size_t r = 0; r < queues_.size(); ++r) {
      if (queues_[r].empty()) continue;
      const auto [other, fresh] = first.try_emplace(queues_[r].front(), r);
      if (fresh) continue;
      arrived_.insert(queues_[r].front());
      queues_[r].pop_front();
      queues_[other->second].pop_front();
      return true;
    }
    return false;
  }

  const RuntimeLists& lists_;
  const PipelineShape& shape_;
  std::vector<std::size_t> cursors_;
  std::vector<std::deque<Message>> queues_;
  std::set<Message> arrived_;
};

RC_GTEST_PROP(RuntimeLists, messages_never_wait_in_a_ring, ()) {
  const ScheduleCase it = random_case();
  const RuntimeLists lists = with_messages(all_actions(it.spec, it.shape), it.shape);
  RC_ASSERT(Rendezvous(lists, it.shape).runs_to_the_end());
}

/// A SEND behind each producer and a RECV right before each consumer: crossed sends of neighbours wait for each other.
RuntimeLists naive(const ActionLists& lists, const PipelineShape& shape) {
  RuntimeLists out(lists.size());
  const RuntimeLists computes_only = compute_only(lists, shape);
  for (std::size_t r = 0; r < lists.size(); ++r) {
    const auto rank = static_cast<std::int64_t>(r);
    for (std::size_t i = 0; i < lists[r].size(); ++i) {
      const RuntimeAction& a = computes_only[r][i];
      const bool forward = a.pass == RuntimePass::forward;
      const auto from = sender_to(shape, rank, lists[r][i]);
      const auto to = receiver_of(shape, rank, lists[r][i]);
      if (from && from->rank != rank)
        out[r].push_back(
            {forward ? RuntimePass::receive_forward : RuntimePass::receive_backward, a.stage, a.microbatch});
      out[r].push_back(a);
      if (to && to->rank != rank)
        out[r].push_back({forward ? RuntimePass::send_forward : RuntimePass::send_backward, a.stage, a.microbatch});
    }
  }
  return out;
}

TEST(RuntimeLists, the_obvious_lowering_hangs_all_but_gpipe) {
  for (const ScheduleKind kind : ruled_kinds()) {
    const ScheduleCase it = case_of({.kind = kind, .virtual_stages = usual_chunks(kind)}, 4, 8);
    const bool hangs = !Rendezvous(naive(all_actions(it.spec, it.shape), it.shape), it.shape).runs_to_the_end();
    EXPECT_EQ(hangs, kind != ScheduleKind::gpipe) << to_text(kind);
  }
}

TEST(RuntimeLists, text_is_pytorchs) {
  const RuntimeLists lists = {{{RuntimePass::unshard, 3, std::nullopt},
                               {RuntimePass::forward, 3, 7, true},
                               {RuntimePass::backward, 0, 2},
                               {RuntimePass::reduce_gradients, 0, std::nullopt}},
                              {{RuntimePass::receive_backward, 12, 40}}};
  EXPECT_EQ(to_csv(lists), "3UNSHARD,(3F7;0B2)OVERLAP_F_B,0REDUCE_GRAD\n12RECV_B40\n");
}

/// Two chunks fit at once: gathered once, reduced behind their last backward, given up at the end.
TEST(RuntimeLists, shards_are_gathered_once_where_all_fit) {
  const ScheduleCase it = case_of({.kind = ScheduleKind::zbv, .virtual_stages = 2}, 1, 1);
  EXPECT_EQ(to_csv(with_sharding(compute_only(all_actions(it.spec, it.shape), it.shape), it.shape)),
            "0UNSHARD,1UNSHARD,0F0,1F0,1I0,1W0,1REDUCE_GRAD,1RESHARD,0I0,0W0,0REDUCE_GRAD,0RESHARD\n");
}

}  // namespace
}  // namespace foretrain
