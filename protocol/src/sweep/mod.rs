//! The rule that maps a task's index to its parameters: never expanded, O(dimensions) for each index.
//!
//! A sweep is the product of its dimensions; the last dimension varies fastest. A dimension is one
//! column of values, or several columns in step (zip groups, CSV rows). An optional sample picks
//! `n` combinations without repetition by a seeded permutation of the index. This module knows
//! neither files nor YAML: what it holds is complete and means the same on every machine.

mod permutation;
mod shorthand;
mod texts;
mod value;

use serde::{Deserialize, Serialize};

pub use permutation::Permutation;
pub use shorthand::parse_array;
pub use texts::Texts;
pub use value::Value;

/// A product of dimensions, optionally sampled. The default has no dimension and one task.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Sweep {
    /// The dimensions; the last one varies fastest.
    pub dimensions: Vec<Dimension>,
    /// Only so many combinations, drawn without repetition.
    pub sample: Option<Sample>,
}

/// One axis of a sweep: columns of equal length that advance together.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Dimension {
    /// At least one; all of the same length.
    pub columns: Vec<Column>,
}

/// A named parameter and its values.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Column {
    /// A letter or `_`, then letters, digits and `_`; or digits only.
    pub name: String,
    /// What the parameter takes, in order.
    pub values: Values,
}

/// The values of a column: listed, or computed from the position.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Values {
    /// Texts as written.
    Texts(Texts),
    /// One run of whole numbers after the other.
    Integers(Vec<IntegerRange>),
    /// `n` equally spaced points from `from` to `to`, both included.
    Linspace {
        /// The first point.
        from: f64,
        /// The last point.
        to: f64,
        /// The number of points.
        n: u64,
    },
}

/// `n` whole numbers from `from`, `step` apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct IntegerRange {
    /// The first number.
    pub from: i64,
    /// The distance to the next one; may be negative, never 0.
    pub step: i64,
    /// How many.
    pub n: u64,
}

/// A random sample of the product, without repetition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Sample {
    /// How many combinations; at most as many as the product has.
    pub n: u64,
    /// The same seed draws the same sample, on every machine and in every version.
    pub seed: u64,
}

/// The parameters of one task, in the order of the sweep's columns.
#[derive(Clone, Debug, PartialEq)]
pub struct Parameters<'a>(pub Vec<(&'a str, Value<'a>)>);

impl Sweep {
    /// A product of lists of texts, one dimension each, in the given order.
    pub fn from_lists(lists: Vec<(String, Vec<String>)>) -> Sweep {
        let dimensions = lists.into_iter().map(|(name, values)| Dimension::texts(name, values)).collect();
        Sweep { dimensions, sample: None }
    }

    /// The number of tasks. Saturates where the product does not fit; `validate` refuses those.
    pub fn n_tasks(&self) -> u64 {
        let n_combinations = self.n_combinations().unwrap_or(u64::MAX);
        self.sample.map_or(n_combinations, |sample| sample.n.min(n_combinations))
    }

    /// The size of the product before sampling, or `None` when it exceeds `u64`.
    pub fn n_combinations(&self) -> Option<u64> {
        if self.dimensions.iter().any(|dimension| dimension.is_empty()) {
            return Some(0);
        }
        self.dimensions.iter().try_fold(1_u64, |product, dimension| product.checked_mul(dimension.len()))
    }

    /// The names of the parameters, dimension by dimension.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.columns().map(|column| column.name.as_str())
    }

    /// All columns, dimension by dimension: the order of `names` and of `values`.
    pub fn columns(&self) -> impl Iterator<Item = &Column> {
        self.dimensions.iter().flat_map(|dimension| &dimension.columns)
    }

    /// The parameters of the task at `index`. O(number of columns); an index past the end wraps.
    pub fn parameters(&self, index: u64) -> Parameters<'_> {
        Parameters(self.names().zip(self.values(index)).collect())
    }

    /// Where the task at `index` is in each dimension.
    pub fn positions(&self, index: u64) -> Vec<u64> {
        let mut rest = self.combination(index);
        let mut positions: Vec<u64> = self
            .dimensions
            .iter()
            .rev()
            .map(|dimension| {
                let n = dimension.len().max(1);
                let position = rest % n;
                rest /= n;
                position
            })
            .collect();
        positions.reverse();
        positions
    }

    /// Which combination of the whole product the task at `index` is.
    fn combination(&self, index: u64) -> u64 {
        match &self.sample {
            Some(sample) => {
                Permutation::new(sample.seed, self.n_combinations().unwrap_or(u64::MAX)).at(index)
            }
            None => index,
        }
    }

    /// The dimension of the parameter at this place of `names`.
    pub fn dimension_of(&self, place: usize) -> Option<usize> {
        let ends = self.dimensions.iter().scan(0, |end, dimension| {
            *end += dimension.columns.len();
            Some(*end)
        });
        ends.into_iter().position(|end| place < end)
    }

    /// The values of the task at `index`, in the order of `names`.
    pub fn values(&self, index: u64) -> Vec<Value<'_>> {
        self.values_of(self.combination(index))
    }

    /// The values of a combination of the whole product, in the order of `names`.
    pub(crate) fn values_of(&self, combination: u64) -> Vec<Value<'_>> {
        let mut rest = combination;
        let mut values = Vec::with_capacity(self.dimensions.len());
        // Last dimension fastest: its position is the lowest digit. Filled backwards, then turned.
        for dimension in self.dimensions.iter().rev() {
            let n = dimension.len().max(1);
            let position = rest % n;
            rest /= n;
            values.extend(dimension.columns.iter().rev().map(|column| column.values.at(position)));
        }
        values.reverse();
        values
    }
}

impl Dimension {
    /// A dimension of one parameter that takes the given texts.
    pub fn texts(name: impl Into<String>, values: Vec<String>) -> Dimension {
        Dimension::column(name, Values::Texts(values.into()))
    }

    /// A dimension of one parameter.
    pub fn column(name: impl Into<String>, values: Values) -> Dimension {
        Dimension { columns: vec![Column { name: name.into(), values }] }
    }

    /// The number of values: the length of its shortest column.
    pub fn len(&self) -> u64 {
        self.columns.iter().map(|column| column.values.len()).min().unwrap_or(0)
    }

    /// Whether there is no value at all.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Values {
    /// The number of values; saturates.
    pub fn len(&self) -> u64 {
        match self {
            Values::Texts(texts) => texts.len() as u64,
            Values::Integers(ranges) => ranges.iter().fold(0, |sum, range| range.n.saturating_add(sum)),
            Values::Linspace { n, .. } => *n,
        }
    }

    /// Whether there is no value at all.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The value at a position; the empty text past the end. O(1), or O(ranges) for integers.
    pub fn at(&self, position: u64) -> Value<'_> {
        match self {
            Values::Texts(texts) => {
                let text = usize::try_from(position).ok().and_then(|i| texts.get(i));
                Value::Text(text.unwrap_or_default())
            }
            Values::Integers(ranges) => value_in_ranges(ranges, position),
            Values::Linspace { from, to, n } => Value::Float(value::point(*from, *to, *n, position)),
        }
    }
}

fn value_in_ranges(ranges: &[IntegerRange], mut position: u64) -> Value<'_> {
    for range in ranges {
        if position < range.n {
            return Value::Integer(range.at(position));
        }
        position -= range.n;
    }
    Value::Text("")
}

impl IntegerRange {
    /// The range from `from` to at most `to`; `None` when the step is 0 or leads away from `to`.
    pub fn between(from: i64, to: i64, step: i64) -> Option<IntegerRange> {
        let distance = i128::from(to) - i128::from(from);
        let step_wide = i128::from(step);
        if step == 0 || distance.signum() * step_wide.signum() < 0 {
            return None;
        }
        let n = u64::try_from(distance / step_wide + 1).ok()?;
        Some(IntegerRange { from, step, n })
    }

    /// The number at a position. Exact for every position below `n` of a valid range.
    pub fn at(&self, position: u64) -> i64 {
        self.at_wide(position) as i64
    }

    /// Whether the last number still is one.
    pub fn fits(&self) -> bool {
        self.n == 0 || i64::try_from(self.at_wide(self.n - 1)).is_ok()
    }

    fn at_wide(&self, position: u64) -> i128 {
        // |step × position| < 2^127, so neither product nor sum can overflow.
        i128::from(self.from).saturating_add(i128::from(self.step).saturating_mul(i128::from(position)))
    }
}

impl<'a> Parameters<'a> {
    /// The value of a parameter.
    pub fn value(&self, name: &str) -> Option<Value<'a>> {
        self.0.iter().find(|(known, _)| *known == name).map(|(_, value)| *value)
    }
}

#[cfg(test)]
mod tests;
