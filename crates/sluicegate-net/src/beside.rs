//! A future that is polled all the time, beside one that is seldom ready.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;

use crate::wake_flag::WakeFlag;

/// The future that was ready first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Beside<T, U> {
    /// The one that is polled at every wake.
    Main(T),
    /// The one that is polled when it has woken the task itself.
    Rare(U),
}

/// Waits for the first of two futures. `main` may be woken often: `rare` is not polled for that.
pub async fn beside<M: Future, R: Future>(
    mut main: Pin<&mut M>,
    mut rare: Pin<&mut R>,
) -> Beside<M::Output, R::Output> {
    let flag = WakeFlag::for_this_task().await;
    poll_fn(|cx| {
        if let Poll::Ready(done) = main.as_mut().poll(cx) {
            return Poll::Ready(Beside::Main(done));
        }
        if !flag.take() {
            return Poll::Pending;
        }
        rare.as_mut().poll(&mut flag.context()).map(Beside::Rare)
    })
    .await
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::time::Duration;

    use tokio::time::sleep;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_rare_one_is_polled_for_its_own_wakes_only() {
        let mut polls = 0;
        let mut timer = pin!(sleep(Duration::from_secs(5)));
        let mut rare = pin!(poll_fn(|cx| {
            polls += 1;
            timer.as_mut().poll(cx)
        }));
        let mut main = pin!(async {
            for _ in 0..100 {
                // bounded wait: the clock is paused
                sleep(Duration::from_millis(1)).await;
            }
            std::future::pending::<()>().await;
        });
        assert_eq!(beside(main.as_mut(), rare.as_mut()).await, Beside::Rare(()));
        assert_eq!(polls, 2);
        let mut never = pin!(std::future::pending::<()>());
        let mut now = pin!(std::future::ready(1));
        assert_eq!(beside(now.as_mut(), never.as_mut()).await, Beside::Main(1));
    }
}
