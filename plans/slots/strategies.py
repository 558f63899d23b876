"""The slot sharing strategies by name; both planners run the same walks."""

from penstock.plans.slots.balance_tasks import deal_in_turn
from penstock.plans.slots.prefer_local_inputs import prefer_producers_slots
from penstock.plans.slots.slots_of_groups import Strategy
from penstock.plans.vocabulary import SlotSharingStrategy

STRATEGIES: dict[SlotSharingStrategy, Strategy] = {
    SlotSharingStrategy.LOCAL_INPUT_PREFERRED: prefer_producers_slots,
    SlotSharingStrategy.TASK_BALANCED_PREFERRED: deal_in_turn,
}
