#include "workloads/program/expert_exchange.h"

#include <array>

namespace foretrain {

ExpertExchangeWriter::ExpertExchangeWriter(const Stage& stage, Track& track) : stage_(stage), track_(track) {
  if (stage.in.model.experts) message_ = expert_message(stage.in.model, stage.in.plan, stage.in.training);
}

Event ExpertExchangeWriter::call(std::optional<Event> first, Slot slot, std::string_view label, Collective op,
                                 Bytes size, Place where) {
  return first ? track_.post(slot, label, op, size, where, std::array{*first})
               : track_.call(slot, label, op, size, where);
}

Bytes ExpertExchangeWriter::shared_size() const {
  return message_ * stage_.in.plan.etp * (gathers() ? stage_.in.plan.ep : 1);
}

std::optional<Event> ExpertExchangeWriter::to_experts(std::string_view label, Place where) {
  const Plan& plan = stage_.in.plan;
  std::optional<Event> done;
  if (plan.ep > 1)
    done = gathers() ? call(done, Slot::ep, label, Collective::all_gather, message_ * plan.ep, where)
                     : call(done, Slot::ep, label, Collective::all_to_allv, message_, where);
  if (plan.etp > 1) done = call(done, Slot::etp, label, Collective::all_gather, shared_size(), where);
  return done;
}

std::optional<Event> ExpertExchangeWriter::from_experts(std::string_view label, Place where) {
  const Plan& plan = stage_.in.plan;
  std::optional<Event> done;
  if (plan.etp > 1) done = call(done, Slot::etp, label, Collective::reduce_scatter, shared_size(), where);
  if (plan.ep > 1)
    done = gathers() ? call(done, Slot::ep, label, Collective::reduce_scatter, message_ * plan.ep, where)
                     : call(done, Slot::ep, label, Collective::all_to_allv_back, message_, where);
  return done;
}

}  // namespace foretrain
