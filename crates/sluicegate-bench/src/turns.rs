//! The order of turns: contestants alternate, so that a disturbance hits all of them alike.

use crate::progress::Progress;

/// The contestants take turns, in another order each round; `turn` is told whose it is.
pub fn in_turns(
    rounds: usize,
    contestants: &[&str],
    what: &str,
    progress: &mut Progress,
    mut turn: impl FnMut(usize) -> Result<(), String>,
) -> Result<(), String> {
    for round in 0..rounds {
        for place in 0..contestants.len() {
            let place = (place + round) % contestants.len();
            let name = contestants[place];
            progress.step(&format!("{what}, round {}, {name}", round + 1));
            turn(place).map_err(|error| format!("{what}, {name}: {error}"))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_changes_from_round_to_round() {
        let mut order = Vec::new();
        let turn = |place| {
            order.push(place);
            Ok(())
        };
        in_turns(3, &["a", "b", "c"], "x", &mut Progress::new(9), turn).unwrap();
        assert_eq!(order, [0, 1, 2, 1, 2, 0, 2, 0, 1]);
    }
}
