//! Medians of rounds: a figure that one disturbed round does not change.

/// The median of the rounds' ratios of these to those: in a round both met the same machine.
pub fn median_ratio<S>(these: &[S], those: &[S], cost: fn(&S) -> f64) -> Option<f64> {
    median(
        these
            .iter()
            .zip(those)
            .map(|(this, that)| cost(this) / cost(that)),
    )
}

/// The middle value, or the mean of the two in the middle.
pub fn median(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => None,
        odd if odd % 2 == 1 => Some(values[middle]),
        _ => Some(f64::midpoint(values[middle - 1], values[middle])),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_ignores_order_and_outliers() {
        assert_eq!(median([]), None);
        assert_eq!(median([3.0]), Some(3.0));
        assert_eq!(median([900.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median([4.0, 1.0, 2.0, 3.0]), Some(2.5));
    }
}
