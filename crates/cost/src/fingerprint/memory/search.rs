//! Pattern search (R. Hooke, T. A. Jeeves, "Direct search solution of numerical and statistical problems", 1961):
//! losses of absolute values and clamps have no useful derivative.

/// Rounds; every one without progress halves the steps.
const ROUNDS: usize = 60;

/// How often the steps are reset to their first size: small steps may stop on a slope.
const STARTS: usize = 4;

/// The numbers of least loss near `start`: changes one at a time by a step up or down, with smaller steps when none
/// helps. A step of 0 keeps its number.
pub(super) fn search<const N: usize>(
    start: [f64; N],
    steps: [f64; N],
    loss: impl Fn([f64; N]) -> f64,
) -> ([f64; N], f64) {
    (0..STARTS).fold((start, loss(start)), |best, _| descend(best, steps, &loss))
}

fn descend<const N: usize>(
    (mut best, mut least): ([f64; N], f64),
    mut steps: [f64; N],
    loss: &impl Fn([f64; N]) -> f64,
) -> ([f64; N], f64) {
    for _ in 0..ROUNDS {
        let before = least;
        for index in (0..N).filter(|&index| steps[index] != 0.0) {
            for direction in [1.0, -1.0] {
                let mut candidate = best;
                candidate[index] += direction * steps[index];
                let value = loss(candidate);
                if value < least {
                    (best, least) = (candidate, value);
                    break;
                }
            }
        }
        if least == before {
            steps.iter_mut().for_each(|step| *step /= 2.0);
        }
    }
    (best, least)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_of_absolute_distances_is_found() {
        // The median of 1, 2, 10 and, for the second number, anything from 3 to 4: the search starts inside and stays.
        let loss = |[a, b]: [f64; 2]| {
            [1.0, 2.0, 10.0].iter().map(|x| (a - x).abs()).sum::<f64>() + (b - 3.0).abs() + (b - 4.0).abs()
        };
        let ([a, b], least) = search([100.0, 3.5], [10.0, 0.0], loss);
        assert!((a - 2.0).abs() < 1e-6 && b == 3.5 && (least - 10.0).abs() < 1e-6, "{a} {b} {least}");
    }
}
