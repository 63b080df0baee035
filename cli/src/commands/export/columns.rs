//! The columns of an export: their names, their types, and a task's values in them.

use protocol::{
    api::TaskRow,
    job::JobSpec,
    sweep::{Column as SweepColumn, Values},
};
use scheduler::time::Time;

use crate::client::state_word;

/// One field of a row.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Not known, or not applicable.
    Missing,
    /// A whole number.
    Integer(i64),
    /// A number.
    Float(f64),
    /// A number as somebody wrote it: `1.10`, `1e5`.
    Written {
        /// Its value.
        number: f64,
        /// How it was written.
        text: String,
    },
    /// A point in time.
    Time(Time),
    /// Anything.
    Text(String),
}

/// What a column holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `Value::Integer`
    Integer,
    /// `Value::Integer`, of which `f64` does not hold all exactly.
    Long,
    /// `Value::Float`
    Float,
    /// `Value::Time`
    Time,
    /// `Value::Text`
    Text,
    /// Texts, each of which may be a number.
    Loose,
}

/// What becomes of the types that change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Settling {
    /// The narrowest that hold all values seen so far.
    Narrow,
    /// Texts, for good.
    AsTexts,
}

/// A column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// Its heading.
    pub name: String,
    /// What it holds.
    pub kind: Kind,
}

/// All columns: the fixed ones, the parameters, the extracts.
#[derive(Clone, Debug)]
pub struct Columns {
    columns: Vec<Column>,
    n_parameters: usize,
    /// Names of the extracts as rows have them.
    extracts: Vec<String>,
    /// What the extracts seen so far could be.
    learned: Vec<Option<Kind>>,
}

/// Whole numbers up to here are exact as floating-point numbers: 2^53.
const WHOLE_MAX: f64 = 9_007_199_254_740_992.0;

const FIXED: [(&str, Kind); 10] = [
    ("index", Kind::Integer),
    ("state", Kind::Text),
    ("exit_code", Kind::Integer),
    ("attempt", Kind::Integer),
    ("pilot", Kind::Integer),
    ("started", Kind::Time),
    ("duration_s", Kind::Float),
    ("cpu_s", Kind::Float),
    ("memory_bytes", Kind::Integer),
    ("failure", Kind::Text),
];

impl Columns {
    /// The columns of a job.
    pub fn of(spec: &JobSpec) -> Columns {
        let mut columns: Vec<Column> =
            FIXED.iter().map(|(name, kind)| Column { name: (*name).to_owned(), kind: *kind }).collect();
        for column in spec.sweep.columns() {
            let name = distinct(&columns, &column.name, "parameter");
            columns.push(Column { name, kind: kind_of(column) });
        }
        let extracts: Vec<String> = spec.results.extract.iter().map(|extract| extract.name.clone()).collect();
        for name in &extracts {
            let name = distinct(&columns, name, "extract");
            columns.push(Column { name, kind: Kind::Loose });
        }
        let learned = vec![None; extracts.len()];
        Columns { columns, n_parameters: spec.sweep.columns().count(), extracts, learned }
    }

    /// All columns, in order.
    pub fn all(&self) -> &[Column] {
        &self.columns
    }

    /// Whether there are columns whose type only their values tell.
    pub fn has_extracts(&self) -> bool {
        !self.extracts.is_empty()
    }

    /// Looks at a row's extracts. Whether all values seen so far have the types that were settled.
    pub fn learn(&mut self, row: &TaskRow) -> bool {
        let first = FIXED.len() + self.n_parameters;
        let mut fits = true;
        for ((name, learned), column) in
            self.extracts.iter().zip(&mut self.learned).zip(&self.columns[first..])
        {
            if let Some(Some(text)) = row.extracted.get(name) {
                let kind = kind_of_text(text);
                *learned = Some(learned.map_or(kind, |known| common(known, kind)));
            }
            fits &= learned.is_none_or(|learned| learned == column.kind);
        }
        fits
    }

    /// Gives the extracts the types of all that was learned.
    pub fn settle(&mut self, how: Settling) {
        let first = FIXED.len() + self.n_parameters;
        for (column, learned) in self.columns[first..].iter_mut().zip(&mut self.learned) {
            if how == Settling::AsTexts && learned.is_some_and(|learned| learned != column.kind) {
                *learned = Some(Kind::Text);
            }
            column.kind = learned.unwrap_or(Kind::Text);
        }
    }

    /// A row's values, one for each column.
    pub fn values(&self, row: TaskRow) -> Vec<Value> {
        let integer = |number: u64| Value::Integer(i64::try_from(number).unwrap_or(i64::MAX));
        let maybe = |number: Option<u64>| number.map_or(Value::Missing, integer);
        let mut values = vec![
            integer(row.index),
            Value::Text(state_word(row.state).to_owned()),
            row.exit_code.map_or(Value::Missing, |code| Value::Integer(code.into())),
            maybe((row.attempt > 0).then_some(row.attempt.into())),
            maybe(row.pilot.map(|pilot| pilot.0)),
            row.started_at.map_or(Value::Missing, Value::Time),
            row.wall.map_or(Value::Missing, |span| Value::Float(span.as_secs_f64())),
            row.cpu.map_or(Value::Missing, |span| Value::Float(span.as_secs_f64())),
            // The kernel hides a peak below the agent's own: 0 is unknown.
            maybe(row.memory_bytes.filter(|bytes| *bytes > 0)),
            row.failure.map_or(Value::Missing, |failure| Value::Text(failure.text)),
        ];
        let mut parameters = row.parameters.into_iter().map(|(_, text)| text);
        let kinds = self.columns[FIXED.len()..].iter().map(|column| column.kind);
        for (n, kind) in kinds.enumerate() {
            let text = match n.checked_sub(self.n_parameters) {
                None => parameters.next(),
                Some(n) => self.extracts.get(n).and_then(|name| row.extracted.get(name).cloned()).flatten(),
            };
            values.push(text.map_or(Value::Missing, |text| as_kind(text, kind)));
        }
        values
    }
}

/// The name, with `what.` before it as often as it takes to be no other column's.
fn distinct(columns: &[Column], name: &str, what: &str) -> String {
    let mut name = name.to_owned();
    while columns.iter().any(|column| column.name == name) {
        name = format!("{what}.{name}");
    }
    name
}

fn kind_of(column: &SweepColumn) -> Kind {
    match &column.values {
        Values::Integers(_) => Kind::Integer,
        Values::Linspace { .. } => Kind::Float,
        Values::Texts(texts) => texts.iter().map(kind_of_text).reduce(common).unwrap_or(Kind::Text),
    }
}

fn kind_of_text(text: &str) -> Kind {
    // `007` is a text that a number would not give back; of `+1` the text is kept beside the number.
    let integer = text.parse::<i64>().ok().filter(|number| number.to_string() == text);
    match (integer, number_of(text)) {
        // The widest type: the largest i64 is not its own rounded value.
        (Some(number), _) if number as f64 as i128 == i128::from(number) => Kind::Integer,
        (Some(_), _) => Kind::Long,
        (None, Some(_)) => Kind::Float,
        (None, None) => Kind::Text,
    }
}

/// The number that a program wrote, also as C, Fortran and others write what is not finite (`nan`, `-inf`,
/// `Infinity`), signs (`+1.5`, `+5`) and double precision (`1.0D-03`, `2d+2`, `1.234-100`). A number that is too large is
/// infinite, and one that is too small is 0. `None`: a text, or a whole number that `f64` does not hold exactly.
fn number_of(text: &str) -> Option<f64> {
    let (is_negative, body) = match text.split_at_checked(1) {
        Some(("-", body)) => (true, body),
        Some(("+", body)) => (false, body),
        _ => (false, text),
    };
    let is_word = |word: &str| body.eq_ignore_ascii_case(word);
    if is_word("nan") {
        return Some(f64::NAN);
    }
    if is_word("inf") || is_word("infinity") {
        return Some(if is_negative { f64::NEG_INFINITY } else { f64::INFINITY });
    }
    // Fortran always writes a point before its D, or a sign after it: `1d5` may be part of a name. It writes exponents of
    // three digits without a letter.
    let body = match (body.split_once(['d', 'D']), exponent_without_letter(body)) {
        (Some((mantissa, exponent)), _) if mantissa.contains('.') || exponent.starts_with(['+', '-']) => {
            format!("{mantissa}e{exponent}")
        }
        (Some(_), _) => return None,
        (None, Some((mantissa, exponent))) => format!("{mantissa}e{exponent}"),
        (None, None) => body.to_owned(),
    };
    let is_whole = !body.contains(['.', 'e', 'E']);
    let has_leading_zero = body.starts_with('0') && body[1..].starts_with(|c: char| c.is_ascii_digit());
    let begins_well = body.starts_with(|c: char| c.is_ascii_digit() || c == '.');
    if !begins_well || has_leading_zero {
        return None;
    }
    // Digits of a long whole number may be a name, and would not come back.
    let number: f64 = body.parse().ok().filter(|number| !is_whole || *number < WHOLE_MAX)?;
    Some(if is_negative { -number } else { number })
}

/// `1.234-100` is 1.234e-100.
fn exponent_without_letter(body: &str) -> Option<(&str, &str)> {
    let at = body.rfind(['+', '-'])?;
    let (mantissa, exponent) = body.split_at(at);
    let is_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let (whole, fraction) = mantissa.split_once('.')?;
    (exponent.len() == 4 && is_digits(&exponent[1..]) && is_digits(whole) && is_digits(fraction))
        .then_some((mantissa, exponent))
}

/// The type that holds both.
fn common(a: Kind, b: Kind) -> Kind {
    match (a, b) {
        (a, b) if a == b => a,
        (Kind::Text | Kind::Time, _) | (_, Kind::Text | Kind::Time) => Kind::Text,
        (Kind::Integer, Kind::Float) | (Kind::Float, Kind::Integer) => Kind::Float,
        (Kind::Integer, Kind::Long) | (Kind::Long, Kind::Integer) => Kind::Long,
        // `f64` would round some.
        _ => Kind::Loose,
    }
}

fn as_kind(text: String, kind: Kind) -> Value {
    let kind = if kind == Kind::Loose { kind_of_text(&text) } else { kind };
    match kind {
        Kind::Integer | Kind::Long => text.parse().map_or(Value::Text(text), Value::Integer),
        Kind::Float => match number_of(&text).or_else(|| text.parse().ok()) {
            Some(number) => Value::Written { number, text },
            None => Value::Text(text),
        },
        Kind::Loose | Kind::Text | Kind::Time => Value::Text(text),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::path::PathBuf;

    use protocol::{
        api::TaskRow,
        job::{CommandLine, Extract, JobSpec},
        sweep::Sweep,
    };
    use scheduler::{
        engine::interface::TaskFilter,
        ids::PilotId,
        time::{Span, Time},
    };

    use super::{Columns, Kind, Settling, Value, as_kind, kind_of_text, number_of};

    /// A job with a parameter of each kind and one extract.
    pub fn job() -> JobSpec {
        let mut spec = JobSpec::new(CommandLine::Args(vec!["sim".to_owned()]), PathBuf::from("/w"));
        let list = |name: &str, values: [&str; 2]| (name.to_owned(), values.map(str::to_owned).to_vec());
        spec.sweep = Sweep::from_lists(vec![
            list("seed", ["1", "2"]),
            list("box", ["0.5", "1"]),
            list("state", ["a,b", "c"]),
        ]);
        spec.results.extract = vec![Extract { name: "affinity".to_owned(), pattern: "x".to_owned() }];
        spec
    }

    /// A row of that job.
    pub fn row(index: u64, affinity: Option<&str>) -> TaskRow {
        let parameters = [("seed", "1"), ("box", "0.5"), ("state", "a,b")];
        TaskRow {
            index,
            state: TaskFilter::Done,
            attempt: 1,
            exit_code: Some(0),
            pilot: Some(PilotId(2)),
            held_by: None,
            started_at: Some(Time(1_700_000_000_250_000)),
            ended_at: Some(Time(1_700_000_001_750_000)),
            wall: Some(Span::from_millis(1500)),
            cpu: Some(Span::from_millis(1250)),
            memory_bytes: Some(4096),
            failure: None,
            parameters: parameters.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec(),
            extracted: [("affinity".to_owned(), affinity.map(str::to_owned))].into(),
            output_cut: false,
        }
    }

    #[test]
    fn columns_have_the_types_of_their_values_and_names_of_their_own() {
        let columns = Columns::of(&job());
        let shown: Vec<String> =
            columns.all()[10..].iter().map(|column| format!("{}:{:?}", column.name, column.kind)).collect();
        assert_eq!(shown, ["seed:Integer", "box:Float", "parameter.state:Text", "affinity:Loose"]);
    }

    #[test]
    fn no_two_columns_have_one_name() {
        let names = |extracts: &[&str], parameter: &str| {
            let mut job = job();
            job.sweep = Sweep::from_lists(vec![(parameter.to_owned(), vec!["1".to_owned()])]);
            let extract = |name: &&str| Extract { name: (*name).to_owned(), pattern: "x".to_owned() };
            job.results.extract = extracts.iter().map(extract).collect();
            let columns = Columns::of(&job);
            columns.all()[10..].iter().map(|column| column.name.clone()).collect::<Vec<_>>()
        };
        assert_eq!(names(&["extract.state", "state"], "n"), ["n", "extract.state", "extract.extract.state"]);
        assert_eq!(names(&["state", "extract.state"], "n"), ["n", "extract.state", "extract.extract.state"]);
        assert_eq!(
            names(&["parameter.state", "n"], "state"),
            ["parameter.state", "extract.parameter.state", "n"]
        );
        assert_eq!(names(&["n"], "n"), ["n", "extract.n"]);
    }

    #[test]
    fn extracts_take_the_type_that_holds_them_all() {
        let settled = |values: &[Option<&str>]| {
            let mut columns = Columns::of(&job());
            for value in values {
                columns.learn(&row(0, *value));
            }
            columns.settle(Settling::Narrow);
            columns.all()[13].kind
        };
        assert_eq!(settled(&[Some("-7"), None, Some("-7.2")]), Kind::Float);
        assert_eq!(settled(&[Some("1"), Some("2")]), Kind::Integer);
        assert_eq!(settled(&[Some("1"), Some("n/a")]), Kind::Text);
        assert_eq!(settled(&[None]), Kind::Text);
    }

    #[test]
    fn texts_that_a_number_would_not_give_back_are_texts() {
        let kinds = ["7", "-7", "007", "1e-3", "-.5", "00.5", "", "+01", "1 ", "--1", "-", "+", "."]
            .map(kind_of_text);
        let (i, f, t) = (Kind::Integer, Kind::Float, Kind::Text);
        assert_eq!(kinds, [i, i, t, f, f, t, t, t, t, t, t, t, t]);
    }

    #[test]
    fn numbers_are_understood_as_c_and_fortran_write_them() {
        let infinity = f64::INFINITY;
        for (text, number) in [
            ("1.0D-03", 0.001),
            ("-0.25d+02", -25.0),
            (".1D1", 1.0),
            ("+1.5", 1.5),
            ("+5", 5.0),
            ("-2d+2", -200.0),
            ("1D-03", 0.001),
            ("+1.0E+00", 1.0),
            ("inf", infinity),
            ("-inf", -infinity),
            ("Inf", infinity),
            ("+Infinity", infinity),
            ("-INFINITY", -infinity),
            ("-1.234-100", -1.234e-100),
            ("1.0+101", 1.0e101),
            ("0.123+308", 1.23e307),
            (".5-120", 0.5e-120),
            ("1e400", infinity),
            ("-1.5D+400", -infinity),
            ("1e-400", 0.0),
        ] {
            assert_eq!((number_of(text), kind_of_text(text)), (Some(number), Kind::Float), "{text}");
        }
        for text in ["nan", "NaN", "-nan", "+NAN"] {
            assert!(number_of(text).is_some_and(f64::is_nan), "{text}");
            assert_eq!(kind_of_text(text), Kind::Float, "{text}");
        }
        for text in [
            "1D5",
            "3d",
            "2D",
            "1.0D",
            "1.0Dx",
            "D-03",
            "info",
            "nano",
            "1.5dB",
            "1.0D-03D1",
            "1.0e5d2",
            "é",
            "1-100",
            "2024-11-28",
            "1.0-10",
            "1.0-1000",
            "1.0.0-100",
            "1.0e5-100",
            "1.0-1x0",
            "1.5–100",
            "10.1+1é",
        ] {
            assert_eq!(kind_of_text(text), Kind::Text, "{text}");
        }
    }

    #[test]
    fn column_with_numbers_that_are_not_finite_is_a_column_of_numbers() {
        let settled = |values: &[&str]| {
            let mut columns = Columns::of(&job());
            for value in values {
                columns.learn(&row(0, Some(value)));
            }
            columns.settle(Settling::Narrow);
            columns.all()[13].kind
        };
        assert_eq!(settled(&["1.5", "nan", "-2e3", "1.0D-03"]), Kind::Float);
        assert_eq!(settled(&["1", "inf"]), Kind::Float);
        assert_eq!(settled(&["nan", "none"]), Kind::Text);
    }

    #[test]
    fn whole_numbers_that_no_number_holds_are_texts() {
        let held = ["9007199254740993.0", "99999999999999999999", "0e-400", "1e5", "4.04e-161"];
        let (f, t) = (Kind::Float, Kind::Text);
        assert_eq!(held.map(kind_of_text), [f, t, f, f, f]);
    }

    #[test]
    fn whole_numbers_that_would_be_rounded_make_no_column_of_floating_point_numbers() {
        let (f, l, o, t) = (Kind::Float, Kind::Long, Kind::Loose, Kind::Text);
        let long = "9007199254740993";
        for (values, kind) in [
            (["1.5", "9007199254740992", "-9007199254740992"], f),
            (["nan", "9007199254740994", "1"], f),
            (["1", long, "2"], l),
            (["9223372036854775807", "-9223372036854775808", "3"], l),
            (["nan", "1", long], o),
            (["1.5", "2", "-9007199254740993"], o),
            ([long, "1.5", "1"], o),
            ([long, "1.5", "a"], t),
            (["1.5", "9223372036854775807", "1"], o),
        ] {
            let mut job = job();
            job.sweep = Sweep::from_lists(vec![("x".to_owned(), values.map(str::to_owned).to_vec())]);
            let mut columns = Columns::of(&job);
            for value in values {
                columns.learn(&row(0, Some(value)));
            }
            columns.settle(Settling::Narrow);
            let kinds = [&columns.all()[10], &columns.all()[11]].map(|column| column.kind);
            assert_eq!(kinds, [kind, kind], "{values:?}");
        }
        assert_eq!(as_kind(long.to_owned(), o), Value::Integer(9_007_199_254_740_993));
    }

    fn written(number: f64, text: &str) -> Value {
        Value::Written { number, text: text.to_owned() }
    }

    #[test]
    fn a_row_has_a_value_for_each_column() {
        let columns = Columns::of(&job());
        let values = columns.values(row(3, Some("-7.2")));
        assert_eq!(values.len(), columns.all().len());
        assert_eq!(values[0], Value::Integer(3));
        assert_eq!(
            values[10..],
            [Value::Integer(1), written(0.5, "0.5"), Value::Text("a,b".to_owned()), written(-7.2, "-7.2")]
        );
        assert_eq!(columns.values(row(3, None))[13], Value::Missing);
        assert_eq!(values[8], Value::Integer(4096));
        let hidden = TaskRow { memory_bytes: Some(0), ..row(3, None) };
        assert_eq!(columns.values(hidden)[8], Value::Missing);
    }
}
