use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;

use super::*;

const LONG: Duration = Duration::from_secs(60);

/// What is handed over in these tests: a thing that holds a slot, as a connection does.
struct Thing {
    _slot: Slot<Thing>,
}

fn slots(max: usize) -> (Arc<AtomicUsize>, Arc<Slots<Thing>>) {
    let max = Arc::new(AtomicUsize::new(max));
    (Arc::clone(&max), Arc::new(Slots::new(max)))
}

type Waiting = Pin<Box<dyn Future<Output = Result<Grant<Thing>, NoSlot>>>>;

/// Begins to wait, and checks that it has to.
async fn wait(slots: &Arc<Slots<Thing>>, wait: Duration) -> Waiting {
    let slots = Arc::clone(slots);
    let mut waiting: Waiting = Box::pin(async move { slots.take(wait).await });
    poll_fn(|cx| {
        assert!(waiting.as_mut().poll(cx).is_pending());
        Poll::Ready(())
    })
    .await;
    waiting
}

async fn is_pending(waiting: &mut Waiting) -> bool {
    poll_fn(|cx| Poll::Ready(waiting.as_mut().poll(cx).is_pending())).await
}

#[tokio::test]
async fn slots_are_given_out_in_order_of_arrival_and_come_back() {
    let (_, slots) = slots(2);
    let (one, two) = (slots.try_take().unwrap(), slots.try_take().unwrap());
    assert!(slots.try_take().is_none());
    let first = wait(&slots, LONG).await;
    let mut second = wait(&slots, LONG).await;
    drop(one);
    assert!(is_pending(&mut second).await, "the first is first");
    assert!(slots.try_take().is_none(), "nobody comes before them");
    let Ok(Grant::Slot(one)) = first.await else {
        panic!("no slot")
    };
    drop(two);
    let Ok(Grant::Slot(two)) = second.await else {
        panic!("no slot")
    };
    assert_eq!(slots.used(), 2);
    drop((one, two));
    assert_eq!((slots.used(), slots.waiting()), (0, 0));
}

#[tokio::test]
async fn each_client_has_a_share_of_what_is_scarce() {
    let (max, slots) = slots(1_000);
    let held: Vec<_> = (0..500).map(|_| slots.try_take().unwrap()).collect();
    assert_eq!(slots.scarce_share(), None, "half of them are free");
    let one_more = slots.try_take();
    assert_eq!(slots.scarce_share(), Some(125));
    max.store(10, Relaxed);
    assert_eq!(slots.scarce_share(), Some(32), "so many may wait");
    drop((held, one_more));
    assert_eq!(slots.scarce_share(), None);
}

#[tokio::test(start_paused = true)]
async fn who_waits_too_long_or_behind_too_many_gets_none() {
    let (_, slots) = slots(1);
    let one = slots.try_take().unwrap();
    let begun = tokio::time::Instant::now();
    let late = slots.take(Duration::from_secs(1)).await;
    assert!(late.is_err() && begun.elapsed() >= Duration::from_secs(1));
    let mut queue = Vec::new();
    for _ in 0..WAITERS_MAX {
        queue.push(wait(&slots, LONG).await);
    }
    let begun = tokio::time::Instant::now();
    assert!(slots.take(LONG).await.is_err() && begun.elapsed().is_zero());
    queue.pop();
    queue.push(wait(&slots, LONG).await);
    drop(one);
    assert_eq!(slots.used(), 1, "the first in the queue has it");
}

#[tokio::test]
async fn a_slot_passes_those_who_have_left() {
    let (_, slots) = slots(1);
    let one = slots.try_take().unwrap();
    let gone = wait(&slots, LONG).await;
    let next = wait(&slots, LONG).await;
    let granted_and_gone = wait(&slots, LONG).await;
    let last = wait(&slots, LONG).await;
    drop(gone);
    drop(one);
    let Ok(Grant::Slot(one)) = next.await else {
        panic!("no slot")
    };
    drop(one);
    drop(granted_and_gone);
    assert!(matches!(last.await, Ok(Grant::Slot(_))));
    assert_eq!(slots.used(), 0);
}

#[tokio::test]
async fn what_becomes_idle_goes_to_who_waits_on_the_same_thread() {
    let (_, slots) = slots(1);
    let thing = Thing {
        _slot: slots.try_take().unwrap(),
    };
    let Some(thing) = slots.hand_over(thing) else {
        panic!("nobody waits, so it is kept")
    };
    let first = wait(&slots, LONG).await;
    assert!(slots.hand_over(thing).is_none());
    let Ok(Grant::HandedOver(thing)) = first.await else {
        panic!("not handed over")
    };
    // Another thread has no use for a socket of this one, and makes its own.
    let near = wait(&slots, LONG).await;
    thread::scope(|threads| {
        threads.spawn(|| assert!(slots.hand_over(thing).is_none()));
    });
    assert!(matches!(near.await, Ok(Grant::Slot(_))));
    assert_eq!(slots.used(), 0);
}

#[tokio::test]
async fn a_lowered_bound_holds_as_slots_come_back() {
    let (max, slots) = slots(3);
    let mut held: Vec<_> = (0..3).filter_map(|_| slots.try_take()).collect();
    max.store(1, Relaxed);
    let mut waiting = wait(&slots, LONG).await;
    held.pop();
    held.pop();
    assert!(is_pending(&mut waiting).await);
    assert_eq!(slots.used(), 1);
    held.pop();
    assert!(matches!(waiting.await, Ok(Grant::Slot(_))));
}

#[tokio::test]
async fn keepers_of_idle_things_are_told_that_somebody_waits() {
    let (_, slots) = slots(1);
    let keeper = Arc::new(Notify::new());
    slots.add_keeper(&keeper);
    let _one = slots.try_take().unwrap();
    let _waiting = wait(&slots, LONG).await;
    keeper.notified().await;
    let later = Arc::new(Notify::new());
    slots.add_keeper(&later);
    later.notified().await;
}
