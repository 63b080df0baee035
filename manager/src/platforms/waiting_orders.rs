//! The orders of one platform that wait for their turn. What frees it goes before what takes it, and a submission that is
//! not wanted any more before its turn has come is never made.

use std::collections::VecDeque;

use scheduler::ids::{AllocationId, PlatformId};
use tokio::sync::mpsc;

use crate::platforms::order::Order;

/// What one platform is to do, in the order in which it was told, but for cancellations.
#[derive(Default)]
pub(crate) struct WaitingOrders(VecDeque<Order>);

impl WaitingOrders {
    /// The next order; `None`: there will be none. `platform`: to whom they are. Safe to be dropped while waiting.
    pub(crate) async fn next(
        &mut self,
        platform: PlatformId,
        orders: &mut mpsc::UnboundedReceiver<Order>,
    ) -> Option<Order> {
        loop {
            while let Ok(order) = orders.try_recv() {
                self.add(platform, order);
            }
            if let Some(next) = self.pop() {
                return Some(next);
            }
            let order = orders.recv().await?;
            self.add(platform, order);
        }
    }

    fn add(&mut self, platform: PlatformId, order: Order) {
        match order {
            Order::Withdraw { allocations, .. } => {
                self.take_back(platform, |allocation| allocations.contains(&allocation));
            }
            Order::Leave { .. } => {
                self.take_back(platform, |_| true);
                self.0.push_back(order);
            }
            _ => self.0.push_back(order),
        }
    }

    /// Submissions of these are not made; that is the next thing to be told.
    fn take_back(&mut self, platform: PlatformId, is_unwanted: impl Fn(AllocationId) -> bool) {
        let mut allocations = Vec::new();
        self.0.retain(|order| match order {
            Order::Submit { allocation, .. } if is_unwanted(*allocation) => {
                allocations.push(*allocation);
                false
            }
            _ => true,
        });
        if !allocations.is_empty() {
            self.0.push_front(Order::Withdraw { platform, allocations });
        }
    }

    fn pop(&mut self) -> Option<Order> {
        let is_first = |order: &Order| matches!(order, Order::Withdraw { .. } | Order::Cancel { .. });
        let first = self.0.iter().position(is_first).unwrap_or(0);
        self.0.remove(first)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const HERE: PlatformId = PlatformId(1);

    fn submit(number: u64) -> Order {
        let (allocation, tag) = (AllocationId(number), format!("pf-{number}"));
        Order::Submit { platform: HERE, allocation, tag, walltime: None }
    }

    fn cancel(id: &str) -> Order {
        Order::Cancel { platform: HERE, batch_ids: vec![id.to_owned()] }
    }

    fn withdraw(numbers: &[u64]) -> Order {
        Order::Withdraw { platform: HERE, allocations: numbers.iter().copied().map(AllocationId).collect() }
    }

    fn list() -> Order {
        Order::List { platform: HERE, known: Vec::new() }
    }

    fn leave() -> Order {
        let (done, _) = mpsc::channel(1);
        Order::Leave { limit: Duration::ZERO, done, tell: Default::default() }
    }

    /// In which order these are carried out that came while the platform had something else to do.
    fn carried_out(orders: impl IntoIterator<Item = Order>) -> Vec<String> {
        let mut waiting = WaitingOrders::default();
        orders.into_iter().for_each(|order| waiting.add(HERE, order));
        let word = |order: Order| match order {
            Order::Submit { tag, .. } => format!("submit {tag}"),
            Order::Cancel { batch_ids, .. } => format!("cancel {}", batch_ids.join(" ")),
            Order::Withdraw { allocations, .. } => format!("withdraw {allocations:?}"),
            Order::List { .. } => "list".to_owned(),
            Order::Leave { .. } => "leave".to_owned(),
            Order::Attach { .. } | Order::Load { .. } | Order::Scale { .. } => "another".to_owned(),
        };
        std::iter::from_fn(|| waiting.pop()).map(word).collect()
    }

    #[test]
    fn cancellations_go_before_submissions_and_listings_that_wait() {
        let orders = [submit(1), list(), cancel("7"), submit(2), cancel("8")];
        assert_eq!(carried_out(orders), ["cancel 7", "cancel 8", "submit pf-1", "list", "submit pf-2"]);
    }

    #[test]
    fn submissions_that_are_not_wanted_any_more_before_their_turn_are_told_and_not_made() {
        let orders = [submit(1), submit(2), list(), submit(3), cancel("7"), withdraw(&[1, 3, 9])];
        let told = format!("withdraw {:?}", [AllocationId(1), AllocationId(3)]);
        assert_eq!(carried_out(orders), [&told, "cancel 7", "submit pf-2", "list"]);
        assert_eq!(carried_out([list(), withdraw(&[1])]), ["list"], "that one was made before");
        assert_eq!(carried_out([withdraw(&[1]), submit(2)]), ["submit pf-2"]);
    }

    #[test]
    fn nothing_is_submitted_once_the_manager_leaves() {
        let told = format!("withdraw {:?}", [AllocationId(1), AllocationId(2)]);
        assert_eq!(carried_out([submit(1), cancel("7"), submit(2), leave()]), [&told, "cancel 7", "leave"]);
    }

    #[tokio::test]
    async fn what_comes_while_an_order_is_carried_out_is_looked_at_before_the_next_one() {
        let (sender, mut orders) = mpsc::unbounded_channel();
        let mut waiting = WaitingOrders::default();
        [submit(1), submit(2), submit(3)].into_iter().for_each(|order| _ = sender.send(order));
        let first = waiting.next(HERE, &mut orders).await;
        assert!(matches!(first, Some(Order::Submit { allocation: AllocationId(1), .. })));
        [cancel("7"), withdraw(&[2, 3])].into_iter().for_each(|order| _ = sender.send(order));
        drop(sender);
        let told = waiting.next(HERE, &mut orders).await;
        assert!(matches!(told, Some(Order::Withdraw { allocations, .. }) if allocations.len() == 2));
        assert!(matches!(waiting.next(HERE, &mut orders).await, Some(Order::Cancel { .. })));
        assert!(waiting.next(HERE, &mut orders).await.is_none(), "nobody gives orders any more");
    }
}
