//! The `policies:` words, taken from the engine's own registry.

use protocol::job::nearest;
use scheduler::policy::Policies;
use serde_json::Value;

/// Layers of the design that the engine does not compose yet.
const NOT_COMPOSED: [&str; 6] =
    ["affinity", "allocation", "distribution", "mapping", "placement", "stealing"];

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
        let found = format!("the layer `{layer}`");
        let those = format!("the layers here are {}", layers.join(", "));
        let expected = match nearest(layer, layers.iter().map(String::as_str)) {
            Some(near) => format!("did you mean `{near}`?"),
            None if NOT_COMPOSED.contains(&layer) => {
                format!("the engine does not compose it yet; {those}")
            }
            None => those,
        };
        return Err(Refused { is_layer: true, found, expected });
    }
    let words = words(layer);
    if !words.iter().any(|known| known == word) {
        let expected = match nearest(word, words.iter().map(String::as_str)) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("the policies of {layer} are {}", words.join(", ")),
        };
        return Err(Refused { is_layer: false, found: format!("`{word}`"), expected });
    }
    let refused = |error: serde_json::Error| Refused {
        is_layer: false,
        found: format!("`{word}`"),
        expected: error.to_string(),
    };
    read(layer, word, policies).map_err(refused)
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
        assert_eq!(layers(), ["matching", "bundling"]);
        assert_eq!(words("matching"), ["turns", "fifo"]);
        assert_eq!(words("bundling"), ["guided", "single"]);
        let policies = with(Policies::default(), "matching", "fifo").unwrap();
        assert_eq!(policies, Policies { matching: Matching::Fifo, bundling: Bundling::Guided });
        let shown = pairs(policies).into_iter().map(|(layer, word)| format!("{layer}={word}"));
        assert_eq!(shown.collect::<Vec<_>>(), ["matching=fifo", "bundling=guided"]);
    }

    #[test]
    fn what_is_no_policy_is_explained() {
        let said = |layer: &str, word: &str| with(Policies::default(), layer, word).unwrap_err().expected;
        assert_eq!(said("matching", "fiffo"), "did you mean `fifo`?");
        assert_eq!(said("matching", "alphabetical"), "the policies of matching are turns, fifo");
        assert_eq!(said("matchign", "fifo"), "did you mean `matching`?");
        assert_eq!(
            said("allocation", "pa-rr"),
            "the engine does not compose it yet; the layers here are matching, bundling"
        );
    }
}
