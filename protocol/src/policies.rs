//! The `policies:` words, taken from the engine's own registry.

use scheduler::policy::Policies;
use serde_json::Value;

use crate::{
    api::LayerView,
    problem::{nearest, sentence},
};

/// Policies of the papers that the engine does not compose, by layer, and why; `pilotfish reproduce` runs them, each in
/// the world of its paper.
const NOT_COMPOSED: [(&str, &[&str], &str); 2] = [
    (
        "matching",
        &["soonest"],
        "which is not composed by the engine yet: it needs estimates that the engine does not keep",
    ),
    (
        "placement",
        &["ai2"],
        "which would be `fastest-first` here: unlike the paper's rigid jobs, tasks fit wherever a core is free",
    ),
];

/// Why a layer or its policy is refused: what was found and what would be right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// Whether it is the layer that is wrong, and not its policy.
    pub is_layer: bool,
    /// Follows "found".
    pub found: String,
    /// Stands alone.
    pub expected: String,
}

impl std::fmt::Display for Refused {
    /// A sentence of what was found, and what would be right.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}; {}", sentence(&self.found), self.expected)
    }
}

/// The engine's layers.
pub fn layers() -> Vec<String> {
    names_of("?")
}

/// The policies of a layer.
pub fn words(layer: &str) -> Vec<String> {
    names_of(layer)
}

/// `policies` with this policy in this layer.
///
/// # Errors
/// There is none of that name, or the engine does not compose the layer yet.
pub fn with(policies: Policies, layer: &str, word: &str) -> Result<Policies, Refused> {
    let layers = layers();
    if !layers.iter().any(|known| known == layer) {
        return Err(no_layer(layer, &layers));
    }
    read(layer, word, policies).map_err(|_| no_policy(layer, word))
}

fn no_layer(layer: &str, layers: &[String]) -> Refused {
    let those = format!("the layers here are {}", layers.join(", "));
    let (found, expected) = match nearest(layer, layers.iter().map(String::as_str)) {
        Some(near) => (format!("the unknown layer `{layer}`"), format!("did you mean `{near}`?")),
        None => (format!("the unknown layer `{layer}`"), those),
    };
    Refused { is_layer: true, found, expected }
}

fn no_policy(layer: &str, word: &str) -> Refused {
    let words = words(layer);
    let those = format!("the policies of {layer} here are {}", words.join(", "));
    // The revised forms are of the same names.
    let name = word.strip_suffix("-revised").or(word.strip_prefix("revised-")).unwrap_or(word);
    let of_papers = NOT_COMPOSED.iter().find(|(of, names, _)| *of == layer && names.contains(&name));
    // Before what is near to it by its letters.
    if let Some((.., why)) = of_papers {
        return Refused { is_layer: false, found: format!("`{word}`, {why}"), expected: those };
    }
    let (found, expected) = match nearest(word, words.iter().map(String::as_str)) {
        _ if layer == "bundling" && word.starts_with("fixed") => {
            (format!("`{word}`"), "say how many tasks, from 1, like fixed-10".to_owned())
        }
        _ if layer == "allocation" && (word.starts_with("paf") || word.starts_with("aaf")) => {
            (format!("`{word}`"), "give the percentage of favourites, 1 to 100, like paf-50".to_owned())
        }
        _ if layer == "allocation" && word.starts_with("pa-rr-") => {
            (format!("`{word}`"), "say how many cores are taken at a time, from 1, like pa-rr-4".to_owned())
        }
        Some(near) => (format!("`{word}`"), format!("did you mean `{near}`?")),
        None => (format!("`{word}`"), those),
    };
    Refused { is_layer: false, found, expected }
}

/// Every layer as people see it: its policy, what the configuration names, and those that there are.
pub fn layer_views(policies: Policies, configured: Policies) -> Vec<LayerView> {
    let view = |((layer, policy), (_, configured)): ((String, String), (String, String))| {
        let choices = words(&layer);
        LayerView { layer, policy, configured, choices }
    };
    pairs(policies).into_iter().zip(pairs(configured)).map(view).collect()
}

/// The layers in which two differ: each with the policy of the one and of the other.
pub fn differences(before: Policies, after: Policies) -> impl Iterator<Item = (String, String, String)> {
    let pairs = pairs(before).into_iter().zip(pairs(after));
    pairs
        .filter(|(before, after)| before != after)
        .map(|((layer, before), (_, after))| (layer, before, after))
}

/// Each layer and the word of its policy.
pub fn pairs(policies: Policies) -> Vec<(String, String)> {
    let Ok(Value::Object(layers)) = serde_json::to_value(policies) else { return Vec::new() };
    let word = |(layer, word): (String, Value)| Some((layer, word.as_str()?.to_owned()));
    layers.into_iter().filter_map(word).collect()
}

fn read(layer: &str, word: &str, others: Policies) -> Result<Policies, serde_json::Error> {
    let mut layers = pairs(others);
    layers.retain(|(known, _)| known != layer);
    layers.push((layer.to_owned(), word.to_owned()));
    let layers = layers.into_iter().map(|(layer, word)| (layer, Value::String(word))).collect();
    serde_json::from_value(Value::Object(layers))
}

/// The names that would have been right, as the library's refusal lists them.
fn names_of(layer: &str) -> Vec<String> {
    let refusal = read(layer, "?", Policies::default()).err().map(|error| error.to_string());
    let refusal = refusal.unwrap_or_default();
    let (_, expected) = refusal.split_once("expected ").unwrap_or_default();
    expected.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use scheduler::policy::{Policies, bundling::Bundling, matching::Matching};

    use super::{layers, pairs, with, words};

    #[test]
    fn words_are_those_of_the_registry() {
        assert_eq!(
            layers(),
            [
                "allocation",
                "affinity",
                "distribution",
                "placement",
                "matching",
                "bundling",
                "mapping",
                "stealing",
                "scaling"
            ]
        );
        assert_eq!(words("allocation"), ["none", "equal", "paf-N", "aaf-N", "pa-rr"]);
        assert_eq!(words("distribution"), ["none", "core-based", "profile", "adaptive-2016", "adaptive"]);
        assert_eq!(words("placement"), ["none", "best-fit", "fastest-first", "tla"]);
        assert_eq!(words("matching"), ["turns", "fifo", "alstb", "ni", "min-min", "max-std", "sufferage"]);
        assert_eq!(words("bundling"), ["guided", "single", "fixed-N", "bin-packing"]);
        assert_eq!(words("mapping"), ["none", "all-core", "random", "ca-rr", "maf"]);
        assert_eq!(words("stealing"), ["none", "mlb", "mdl", "rlds", "flds", "lend"]);
        let policies = with(Policies::default(), "matching", "fifo").unwrap();
        let only = Policies { matching: Matching::Fifo, bundling: Bundling::Guided, ..Policies::default() };
        assert_eq!(policies, only);
        let shown = pairs(policies).into_iter().map(|(layer, word)| format!("{layer}={word}"));
        assert_eq!(
            shown.collect::<Vec<_>>(),
            [
                "allocation=none",
                "affinity=rpa",
                "distribution=adaptive",
                "placement=none",
                "matching=fifo",
                "bundling=guided",
                "mapping=none",
                "stealing=none",
                "scaling=measured"
            ]
        );
    }

    #[test]
    fn bundles_of_so_many_tasks_are_a_policy() {
        let policies = with(Policies::default(), "bundling", "fixed-10").unwrap();
        assert_eq!(pairs(policies)[5], ("bundling".to_owned(), "fixed-10".to_owned()));
    }

    #[test]
    fn what_is_no_policy_is_explained() {
        let said = |layer: &str, word: &str| {
            let refused = with(Policies::default(), layer, word).unwrap_err();
            refused.to_string()
        };
        assert_eq!(said("matching", "fiffo"), "found `fiffo`; did you mean `fifo`?");
        assert_eq!(
            said("matching", "alphabetical"),
            "found `alphabetical`; the policies of matching here are turns, fifo, alstb, ni, min-min, max-std, sufferage"
        );
        assert_eq!(said("matchign", "fifo"), "found the unknown layer `matchign`; did you mean `matching`?");
        assert_eq!(
            said("fixed", "fifo"),
            "found the unknown layer `fixed`; the layers here are allocation, affinity, distribution, placement, matching, bundling, mapping, stealing, scaling"
        );
        assert_eq!(said("bundling", "fixed"), "found `fixed`; say how many tasks, from 1, like fixed-10");
        assert_eq!(said("bundling", "fixed-0"), "found `fixed-0`; say how many tasks, from 1, like fixed-10");
        for word in ["paf-", "aaf-0", "paf-101"] {
            let hint = "give the percentage of favourites, 1 to 100, like paf-50";
            assert_eq!(said("allocation", word), format!("found `{word}`; {hint}"));
        }
        let hint = "say how many cores are taken at a time, from 1, like pa-rr-4";
        assert_eq!(said("allocation", "pa-rr-0"), format!("found `pa-rr-0`; {hint}"));
    }

    #[test]
    fn what_the_papers_have_and_the_engine_does_not_is_said_to_be_so() {
        for (layer, words, why) in super::NOT_COMPOSED {
            for word in words {
                let refused = with(Policies::default(), layer, word).unwrap_err();
                assert_eq!(refused.found, format!("`{word}`, {why}"));
                let begin = format!("`{word}` {}", why.strip_prefix("which ").unwrap());
                assert!(refused.to_string().starts_with(&begin), "{refused}");
                assert!(refused.expected.starts_with(&format!("the policies of {layer} here are ")));
            }
        }
        let refused = with(Policies::default(), "matching", "soonest-revised").unwrap_err();
        assert!(refused.found.contains("estimates"), "{refused:?}");
    }
}
