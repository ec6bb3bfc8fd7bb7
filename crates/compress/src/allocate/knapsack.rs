//! One choice per site within a budget: the multiple-choice knapsack problem.
//!
//! Steps between the choices on the lower convex hull of each site are taken in the order of loss
//! saved per parameter (Lagrangian relaxation; Sinha and Zoltners 1979). What is left of the budget
//! is filled with the step, hull or not, that saves most. The relaxation also bounds the loss of
//! every allocation from below, so the gap is known.

use super::{Allocation, Choice, SiteChoices, Unreachable};

/// A step of a site to its next choice on the hull.
struct Step {
    site: usize,
    choice: usize,
    parameters: u64,
    /// Loss saved per parameter.
    slope: f64,
}

/// Picks a choice for each site, so that at most `keep` of the dense parameters stay and the sum of
/// losses is small.
///
/// # Errors
/// [`Unreachable`] if the smallest choices have more parameters.
pub fn allocate(sites: &[SiteChoices], keep: f64) -> Result<Allocation, Unreachable> {
    let dense_parameters: u64 = sites.iter().map(|site| site.dense_parameters).sum();
    let budget = (keep * dense_parameters as f64).floor() as u64;
    let hulls: Vec<Vec<usize>> = sites.iter().map(|site| hull(&site.choices)).collect();
    let mut chosen: Vec<usize> = hulls.iter().map(|hull| hull[0]).collect();
    let mut parameters = parameters_of(sites, &chosen);
    if parameters > budget {
        let nearest = parameters as f64 / dense_parameters.max(1) as f64;
        return Err(Unreachable { asked: keep, nearest });
    }
    let mut loss = loss_of(sites, &chosen);
    let (mut bound, mut relaxed) = (loss, true);
    // A site whose step was too large stays where it is.
    let mut stopped = vec![false; sites.len()];
    for step in steps(sites, &hulls) {
        if relaxed {
            let taken = (budget - parameters).min(step.parameters);
            bound -= step.slope * taken as f64;
            relaxed = taken == step.parameters;
        }
        if stopped[step.site] || parameters + step.parameters > budget {
            stopped[step.site] = true;
            continue;
        }
        chosen[step.site] = step.choice;
        parameters += step.parameters;
    }
    while let Some((site, choice)) = best_single(sites, &chosen, budget - parameters) {
        parameters = parameters - sites[site].choices[chosen[site]].parameters
            + sites[site].choices[choice].parameters;
        chosen[site] = choice;
    }
    loss = loss_of(sites, &chosen);
    Ok(Allocation { chosen, parameters, dense_parameters, loss, bound: bound.min(loss) })
}

/// Gives every site its largest choice with at most `keep` of its own parameters.
///
/// # Errors
/// [`Unreachable`] if a site has none.
pub fn uniform(sites: &[SiteChoices], keep: f64) -> Result<Allocation, Unreachable> {
    let dense_parameters: u64 = sites.iter().map(|site| site.dense_parameters).sum();
    let mut chosen = Vec::with_capacity(sites.len());
    for site in sites {
        let share = |choice: &Choice| choice.parameters as f64 / site.dense_parameters as f64;
        let all = site.choices.iter().enumerate();
        let fitting = all.filter(|(_, choice)| share(choice) <= keep);
        let best = fitting
            .max_by(|a, b| a.1.parameters.cmp(&b.1.parameters).then(b.1.loss.total_cmp(&a.1.loss)));
        let least = || site.choices.iter().map(share).fold(f64::INFINITY, f64::min);
        let (index, _) = best.ok_or_else(|| Unreachable { asked: keep, nearest: least() })?;
        chosen.push(index);
    }
    let (parameters, loss) = (parameters_of(sites, &chosen), loss_of(sites, &chosen));
    Ok(Allocation { chosen, parameters, dense_parameters, loss, bound: 0.0 })
}

fn parameters_of(sites: &[SiteChoices], chosen: &[usize]) -> u64 {
    sites.iter().zip(chosen).map(|(site, choice)| site.choices[*choice].parameters).sum()
}

fn loss_of(sites: &[SiteChoices], chosen: &[usize]) -> f64 {
    sites.iter().zip(chosen).map(|(site, choice)| site.choices[*choice].loss).sum()
}

/// Choices on the lower convex hull of loss over parameters, from the smallest.
fn hull(choices: &[Choice]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..choices.len()).collect();
    order.sort_by(|a, b| {
        let (a, b) = (&choices[*a], &choices[*b]);
        a.parameters.cmp(&b.parameters).then(a.loss.total_cmp(&b.loss))
    });
    let mut hull: Vec<usize> = Vec::new();
    for index in order {
        let here = &choices[index];
        if hull.last().is_some_and(|last| choices[*last].loss <= here.loss) {
            continue;
        }
        while let [.., before, last] = hull[..]
            && slope(&choices[before], &choices[last]) <= slope(&choices[before], here)
        {
            hull.pop();
        }
        hull.push(index);
    }
    hull
}

/// Loss saved per parameter from one choice to a larger one.
fn slope(from: &Choice, to: &Choice) -> f64 {
    (from.loss - to.loss) / (to.parameters - from.parameters).max(1) as f64
}

/// Steps along all hulls, the most profitable first; those of a site stay in order.
fn steps(sites: &[SiteChoices], hulls: &[Vec<usize>]) -> Vec<Step> {
    let mut steps = Vec::new();
    for (site, hull) in hulls.iter().enumerate() {
        for pair in hull.windows(2) {
            let (from, to) = (&sites[site].choices[pair[0]], &sites[site].choices[pair[1]]);
            let parameters = to.parameters - from.parameters;
            steps.push(Step { site, choice: pair[1], parameters, slope: slope(from, to) });
        }
    }
    // Stable: of equal slopes, the first site and the smaller choice come first.
    steps.sort_by(|a, b| b.slope.total_cmp(&a.slope));
    steps
}

/// The change of one site that saves most within the parameters that are left.
fn best_single(sites: &[SiteChoices], chosen: &[usize], left: u64) -> Option<(usize, usize)> {
    let mut best: Option<(f64, usize, usize)> = None;
    for (site, own) in sites.iter().enumerate() {
        let now = &own.choices[chosen[site]];
        for (index, choice) in own.choices.iter().enumerate() {
            let saved = now.loss - choice.loss;
            let fits = choice.parameters <= now.parameters + left;
            if fits && saved > best.map_or(0.0, |(best, ..)| best) {
                best = Some((saved, site, index));
            }
        }
    }
    best.map(|(_, site, index)| (site, index))
}

#[cfg(test)]
mod tests {
    use super::*;
    use linwright_ops::{Shape, SiteId};
    use linwright_tensor::RngKey;

    fn site(name: usize, choices: &[(u64, f64)]) -> SiteChoices {
        let of = |&(parameters, loss): &(u64, f64)| Choice {
            parameters,
            loss,
            ..Choice::dense(Shape { out: 1, inp: 1 })
        };
        SiteChoices {
            site: SiteId(name.to_string()),
            dense_parameters: 100,
            choices: choices.iter().map(of).collect(),
        }
    }

    /// The least loss of all combinations within the budget.
    fn exhaustive(sites: &[SiteChoices], budget: u64) -> f64 {
        match sites.split_first() {
            None => 0.0,
            Some((first, rest)) => first
                .choices
                .iter()
                .filter(|choice| choice.parameters <= budget)
                .map(|choice| choice.loss + exhaustive(rest, budget - choice.parameters))
                .fold(f64::INFINITY, f64::min),
        }
    }

    #[test]
    fn it_is_within_the_bound_of_the_best_of_all_combinations() {
        let mut stream = RngKey::new(7).stream();
        let mut exact = 0;
        for trial in 0..200 {
            let mut random = |n: u64| stream.below(n as usize) as u64;
            let sites: Vec<SiteChoices> = (0..4)
                .map(|name| {
                    let mut choices: Vec<(u64, f64)> =
                        (0..4).map(|_| (10 + random(80), random(1000) as f64 / 100.0)).collect();
                    choices.push((100, 0.0));
                    site(name, &choices)
                })
                .collect();
            let keep = 0.3 + 0.15 * (trial % 5) as f64;
            let best = exhaustive(&sites, (keep * 400.0).floor() as u64);
            match allocate(&sites, keep) {
                Ok(found) => {
                    assert!(found.keep() <= keep && found.parameters as f64 <= keep * 400.0);
                    assert!(found.bound <= best + 1e-9 && best <= found.loss + 1e-9, "{found:?}");
                    assert!((loss_of(&sites, &found.chosen) - found.loss).abs() < 1e-12);
                    exact += usize::from(found.loss < best + 1e-9);
                }
                Err(error) => {
                    assert!(best.is_infinite() && error.nearest > keep, "{error}");
                }
            }
        }
        assert!(exact > 100, "{exact} of 200 are the best");
    }

    #[test]
    fn what_costs_more_loss_per_parameter_keeps_more() {
        let sites = [
            site(0, &[(10, 9.0), (50, 1.0), (100, 0.0)]),
            site(1, &[(10, 2.0), (50, 1.5), (100, 0.0)]),
        ];
        let found = allocate(&sites, 0.3).expect("fits");
        assert_eq!((found.chosen, found.parameters), (vec![1, 0], 60));
        let all = allocate(&sites, 1.0).expect("fits");
        assert_eq!((all.chosen, all.loss, all.bound), (vec![2, 2], 0.0, 0.0));
        let same = uniform(&sites, 0.6).expect("fits");
        assert_eq!((same.chosen, same.loss), (vec![1, 1], 2.5));
        assert!(uniform(&sites, 0.05).is_err());
        let error = allocate(&sites, 0.05).expect_err("is too small");
        assert_eq!(error, Unreachable { asked: 0.05, nearest: 0.1 });
        assert!(error.to_string().contains("the nearest keeps 0.1000"));
    }
}
