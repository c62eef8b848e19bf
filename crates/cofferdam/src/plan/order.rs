//! Which task waits for which. Pure.

/// `after[n]`: for whom number n waits. The numbers of a circle, where there is one: each waits for the next, the last one for the first.
pub(super) fn circle(after: &[Vec<usize>]) -> Option<Vec<usize>> {
    // Whoever waits for nobody who is left is free; who is never free is on a circle or behind one.
    let mut left: Vec<bool> = vec![true; after.len()];
    loop {
        let free = |at: usize| left[at] && !after[at].iter().any(|&first| left[first]);
        let Some(at) = (0..after.len()).find(|&at| free(at)) else {
            break;
        };
        left[at] = false;
    }
    let mut at = left.iter().position(|&left| left)?;
    let mut path = Vec::new();
    loop {
        if let Some(begin) = path.iter().position(|&passed| passed == at) {
            path.drain(..begin);
            return Some(path);
        }
        path.push(at);
        at = after[at].iter().copied().find(|&first| left[first])?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_circle_is_found_wherever_it_is() {
        assert_eq!(circle(&[]), None);
        assert_eq!(circle(&[vec![], vec![0], vec![0, 1]]), None);
        assert_eq!(circle(&[vec![0]]), Some(vec![0]));
        assert_eq!(
            circle(&[vec![1], vec![2], vec![1], vec![]]),
            Some(vec![1, 2])
        );
        // Who waits for one is named only with it.
        assert_eq!(
            circle(&[vec![3], vec![], vec![1], vec![2, 0]]),
            Some(vec![0, 3])
        );
    }
}
