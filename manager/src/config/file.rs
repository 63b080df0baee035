//! `manager.yaml`: its form, and errors that name file, line, field, what was found and what would be
//! right. `docs/manager.yaml` is an example of everything.

mod mistakes;
mod quotas;

use std::{
    fs,
    io::{self, Read},
    net::IpAddr,
    path::{Path, PathBuf},
    string::FromUtf8Error,
};

use profiles::{
    application::ApplicationProfile,
    platform::{PlatformError, PlatformProfile},
    quantity::{Duration, Quantity},
    store::StoreProfile,
};
use protocol::job::{Locator, Problem, in_file, parse_yaml, unreadable};
use scheduler::{engine::interface::settings::Settings, policy::Policies, time::Span};
use serde::{
    Deserialize, Deserializer,
    de::{DeserializeOwned, Error as _},
};
use serde_yaml::Value;

use super::TlsMode;
pub use quotas::{QuotaForm, QuotasForm};

/// No file is larger: hundreds of platforms fit.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Why a configuration is refused.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("{}", unreadable(.path, .source))]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The file is too large.
    #[error("{} has more than {FILE_BYTES_MAX} bytes, the most that a configuration may have", .path.display())]
    TooLong {
        /// The file.
        path: PathBuf,
    },
    /// Mistakes in it, in the order of its lines.
    #[error("{}", lines_of(.0))]
    Content(Vec<Problem>),
    /// A platform that offers nothing.
    #[error(transparent)]
    Platform(#[from] PlatformError),
}

/// What a `manager.yaml` says.
#[derive(Clone, PartialEq, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ManagerFile {
    /// Where the API listens.
    pub listen: Listen,
    /// Whether it speaks TLS.
    pub tls: Option<TlsMode>,
    /// Attached at the start.
    pub platforms: Vec<PlatformProfile>,
    /// Stores that jobs may name.
    pub stores: Vec<StoreProfile>,
    /// Which policy each layer uses.
    pub policies: Option<Policies>,
    /// Limits and intervals of the engine.
    pub limits: Limits,
    /// What one user may take.
    pub quotas: QuotasForm,
}

/// Where the API listens.
#[derive(Clone, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Listen {
    /// The address.
    #[serde(deserialize_with = "host")]
    pub host: Option<IpAddr>,
    /// The port.
    pub port: Option<u16>,
    /// The name by which pilots on other hosts reach it.
    pub name: Option<String>,
}

/// The engine's settings that the file changes; see [`Settings`] for what they are.
#[derive(Clone, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    #[serde(deserialize_with = "patience")]
    heartbeat_limit: Option<Duration>,
    poll_wait_max: Option<Duration>,
    grace: Option<Duration>,
    prefetch: Option<Duration>,
    prefetch_tasks_max: Option<u64>,
    node_retries: Option<u32>,
    transfer_retries: Option<u32>,
    start_retries: Option<u32>,
    walltime_retries: Option<u32>,
    submit_limit: Option<Duration>,
    join_limit: Option<Duration>,
    leave_limit: Option<Duration>,
    node_retry_delay: Option<Duration>,
    retry_delay_max: Option<Duration>,
    black_hole_limit: Option<u32>,
    retry_elsewhere: Option<Duration>,
    platform_delay: Option<Duration>,
    platform_delay_max: Option<Duration>,
    walltime_margin: Option<Duration>,
}

impl ManagerFile {
    /// Reads a file.
    ///
    /// # Errors
    /// A file that cannot be read, is too long, or its mistakes.
    pub fn load(path: &Path) -> Result<ManagerFile, ConfigError> {
        ManagerFile::parse(&read_text(path)?, path)
    }

    /// Reads the text of a file; `path` is what errors call it.
    ///
    /// # Errors
    /// All its mistakes.
    pub fn parse(text: &str, path: &Path) -> Result<ManagerFile, ConfigError> {
        if text.lines().all(|line| line.trim().is_empty() || line.trim_start().starts_with('#')) {
            return Ok(ManagerFile::default());
        }
        parse(text, path, mistakes::all)
    }
}

/// The names of the fields of a form that differ in another one.
macro_rules! differing {
    ($own:expr, $other:expr, $form:ident { $($field:ident),* $(,)? }) => {{
        let $form { $($field),* } = $own;
        let fields = [$((stringify!($field), *$field != $other.$field)),*];
        fields.into_iter().filter(|(_, differs)| *differs).map(|(name, _)| name)
    }};
}

impl ManagerFile {
    /// The fields beside `platforms` that say something else than those of another file, like `limits.grace`.
    pub fn differences(&self, other: &ManagerFile) -> Vec<String> {
        let mut all = Vec::new();
        let mut add = |part: &str, name: &str| all.push(format!("{part}.{name}"));
        differing!(&self.listen, other.listen, Listen { host, port, name })
            .for_each(|name| add("listen", name));
        let layers = |file: &ManagerFile| protocol::policies::pairs(file.policies.unwrap_or_default());
        let (own, others) = (layers(self), layers(other));
        own.iter().filter(|pair| !others.contains(pair)).for_each(|(layer, _)| add("policies", layer));
        differing!(
            &self.limits,
            other.limits,
            Limits {
                heartbeat_limit,
                poll_wait_max,
                grace,
                prefetch,
                prefetch_tasks_max,
                node_retries,
                transfer_retries,
                start_retries,
                walltime_retries,
                submit_limit,
                join_limit,
                leave_limit,
                node_retry_delay,
                retry_delay_max,
                black_hole_limit,
                retry_elsewhere,
                platform_delay,
                platform_delay_max,
                walltime_margin,
            }
        )
        .for_each(|name| add("limits", name));
        if self.tls != other.tls {
            all.push("tls".to_owned());
        }
        all.extend(differing_stores(&self.stores, &other.stores).map(|name| format!("stores.{name}")));
        all
    }
}

/// The names of stores that only one of two files has, or that are others in it.
fn differing_stores<'a>(own: &'a [StoreProfile], other: &'a [StoreProfile]) -> impl Iterator<Item = &'a str> {
    let gone = own.iter().filter(move |store| !other.contains(store));
    let new = other.iter().filter(move |store| !own.iter().any(|held| held.name == store.name));
    gone.chain(new).map(|store| store.name.as_str())
}

/// Reads an application's profile.
///
/// # Errors
/// A file that cannot be read, is too long, or its mistakes.
pub fn load_application(path: &Path) -> Result<ApplicationProfile, ConfigError> {
    parse(&read_text(path)?, path, mistakes::of_application)
}

fn read_text(path: &Path) -> Result<String, ConfigError> {
    let file_error = |source| ConfigError::File { path: path.to_owned(), source };
    let mut bytes = Vec::new();
    // Of a device or a pipe nobody knows how much it holds.
    let file = fs::File::open(path).map_err(file_error)?;
    let found = file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(file_error)? as u64;
    if found > FILE_BYTES_MAX {
        return Err(ConfigError::TooLong { path: path.to_owned() });
    }
    String::from_utf8(bytes).map_err(|error| ConfigError::Content(vec![not_utf8(&error, path)]))
}

/// Where the first byte is that is no UTF-8, and which.
fn not_utf8(error: &FromUtf8Error, path: &Path) -> Problem {
    let (bytes, at) = (error.as_bytes(), error.utf8_error().valid_up_to());
    let before = String::from_utf8_lossy(&bytes[..at]);
    let line_start = before.rfind('\n').map_or(0, |end| end + 1);
    let place = |n: usize| u32::try_from(n + 1).ok();
    let byte = bytes.get(at).copied().unwrap_or_default();
    Problem {
        file: Some(path.display().to_string()),
        line: place(before.matches('\n').count()),
        column: place(before[line_start..].chars().count()),
        ..Problem::new("", format!("the byte 0x{byte:02x}, which is not UTF-8"), "save the file as UTF-8")
    }
}

fn parse<T: DeserializeOwned>(
    text: &str,
    path: &Path,
    mistakes: fn(&Value) -> Vec<Problem>,
) -> Result<T, ConfigError> {
    let name = path.display().to_string();
    let refused = |problems| ConfigError::Content(in_file(problems, &name, &Locator::read(text)));
    let tree = parse_yaml(text).map_err(refused)?;
    let problems = mistakes(&tree);
    if !problems.is_empty() {
        return Err(refused(problems));
    }
    // What is wrong in itself has been found field by field; this is the same once more, as a whole.
    serde_yaml::from_value(tree).map_err(|error| refused(vec![mistakes::problem("", &error)]))
}

fn lines_of(problems: &[Problem]) -> String {
    let lines: Vec<String> = problems.iter().map(Problem::to_string).collect();
    lines.join("\n")
}

impl Limits {
    /// Changes the settings that the file names.
    pub fn apply(&self, settings: &mut Settings) {
        let spans = [
            (self.heartbeat_limit, &mut settings.heartbeat_limit),
            (self.poll_wait_max, &mut settings.poll_wait_max),
            (self.grace, &mut settings.grace),
            (self.prefetch, &mut settings.prefetch),
            (self.submit_limit, &mut settings.submit_limit),
            (self.join_limit, &mut settings.join_limit),
            (self.leave_limit, &mut settings.leave_limit),
            (self.node_retry_delay, &mut settings.node_retry_delay),
            (self.retry_delay_max, &mut settings.retry_delay_max),
            (self.retry_elsewhere, &mut settings.retry_elsewhere),
            (self.platform_delay, &mut settings.platform_delay),
            (self.platform_delay_max, &mut settings.platform_delay_max),
            (self.walltime_margin, &mut settings.walltime_margin),
        ];
        for (said, setting) in spans {
            *setting = said.map_or(*setting, |duration| duration.0);
        }
        settings.prefetch_tasks_max = self.prefetch_tasks_max.unwrap_or(settings.prefetch_tasks_max);
        settings.node_retries = self.node_retries.unwrap_or(settings.node_retries);
        settings.transfer_retries = self.transfer_retries.unwrap_or(settings.transfer_retries);
        settings.start_retries = self.start_retries.unwrap_or(settings.start_retries);
        settings.walltime_retries = self.walltime_retries.unwrap_or(settings.walltime_retries);
        settings.black_hole_limit = self.black_hole_limit.unwrap_or(settings.black_hole_limit);
    }
}

fn host<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<IpAddr>, D::Error> {
    let wanted = "an address like 127.0.0.1, 0.0.0.0 or ::1";
    let parse = |text: &str| text.parse().map_err(|_| format!("write {wanted}"));
    deserializer.deserialize_any(Quantity { wanted, parse }).map(Some)
}

/// In less no pilot can be heard again: all would be given up.
fn patience<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
    let limit = Option::<Duration>::deserialize(deserializer)?;
    match limit.filter(|limit| limit.0 < Span::from_secs(1)) {
        Some(short) => Err(D::Error::custom(format!("found {}; write 1s or more", short.0))),
        None => Ok(limit),
    }
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, path::Path};

    use scheduler::{engine::interface::settings::Settings, resources::Resources, time::Span};

    use super::{super::Config, ConfigError, ManagerFile};

    fn parse(text: &str) -> Result<ManagerFile, String> {
        ManagerFile::parse(text, Path::new("manager.yaml")).map_err(|error| error.to_string())
    }

    #[test]
    fn differences_are_named_by_their_fields() {
        let differences = |a: &str, b: &str| parse(a).unwrap().differences(&parse(b).unwrap()).join(" ");
        let file = "listen: {port: 1}\nlimits: {grace: 7s}\npolicies: {matching: turns}\n";
        assert_eq!(differences(file, file), "");
        assert_eq!(differences(file, ""), "listen.port limits.grace");
        let other =
            "tls: on\nlisten: {port: 2}\nlimits: {grace: 7s, node_retries: 9}\npolicies: {matching: fifo}\n";
        assert_eq!(differences(file, other), "listen.port policies.matching limits.node_retries tls");
        let stores = |text: &str| format!("stores: [{text}]\n");
        let (a, b, c) = (
            "{name: a, kind: s3, bucket: x}",
            "{name: b, kind: s3, bucket: x}",
            "{name: a, kind: s3, bucket: y}",
        );
        let both = stores(&format!("{a}, {b}"));
        assert_eq!(differences(&both, &stores(&format!("{b}, {c}"))), "stores.a");
        assert_eq!(differences(&stores(a), &both), "stores.b");
        assert_eq!(differences(&stores(a), ""), "stores.a");
    }

    #[test]
    fn a_file_that_is_not_utf8_is_told_with_the_place_of_the_first_such_byte() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("manager.yaml");
        let load = |bytes: &[u8]| {
            std::fs::write(&path, bytes).unwrap();
            ManagerFile::load(&path).unwrap_err().to_string()
        };
        let told = |place: &str, byte: &str| {
            format!("{}:{place}: byte {byte} is not UTF-8; save the file as UTF-8", path.display())
        };
        // Latin-1, behind characters that are UTF-8.
        assert_eq!(load(b"tls: on\r\n# \xc3\xbc: caf\xe9\nlisten: {}\n"), told("2:9", "0xe9"));
        assert_eq!(load(b"\xff\xfet\0l\0s\0"), told("1:1", "0xff"));
        assert_eq!(load(b"tls: on\n\n\xc3"), told("3:1", "0xc3"), "half a character");
    }

    #[test]
    fn quotas_of_users_build_on_the_default() {
        let file =
            parse("quotas: {default: {priority: all}, users: {ann: {priority: own}, bob: {}}}").unwrap();
        let quotas = file.quotas.quotas();
        let over_all = |name: &str, is_operator| quotas.of(name, is_operator).is_priority_over_all;
        assert!(!over_all("ann", false) && over_all("bob", false) && over_all("cyd", false));
        assert!(!over_all("bob", true), "an operator has what is said by name only");
        let file = parse("quotas: {users: {olga: {priority: all}}}").unwrap();
        assert!(file.quotas.quotas().of("olga", true).is_priority_over_all);
        assert!(!file.quotas.quotas().of("ann", false).is_priority_over_all);
    }

    fn host() -> Resources {
        Resources { memory_bytes: 4 << 30, ..Resources::cores(2) }
    }

    #[test]
    fn the_documented_example_says_the_defaults() {
        let file = parse(include_str!("../../../docs/manager.yaml")).unwrap();
        let mut config = Config::new("/x".into(), "ann".to_owned());
        config.apply(&file, &host()).unwrap();
        assert_eq!(config.settings, Settings::default());
        assert_eq!((config.listen_host.to_string(), config.listen_port), ("0.0.0.0".to_owned(), Some(7400)));
        let (spec, _) = &config.platforms[0];
        assert_eq!((spec.capacity.cores, spec.capacity.memory_bytes), (4, 8 << 30));
        assert_eq!((spec.idle_timeout, spec.walltime), (Span::from_secs(600), Some(Span::from_secs(7200))));
    }

    #[test]
    fn a_block_that_names_every_layer_is_taken() {
        let block = "policies: {allocation: pa-rr, affinity: rpa, distribution: adaptive, placement: tla, matching: \
                     alstb, bundling: bin-packing, mapping: maf, stealing: none}";
        let policies = parse(block).unwrap().policies.expect("it is there");
        let words: Vec<String> =
            protocol::policies::pairs(policies).into_iter().map(|(_, word)| word).collect();
        let expected = "pa-rr rpa adaptive tla alstb bin-packing maf none measured";
        assert_eq!(words.join(" "), expected);
    }

    #[test]
    fn templates_of_platforms_can_be_used_as_they_are() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../profiles/platforms");
        let mut seen = BTreeSet::new();
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let file = ManagerFile::load(&path).unwrap_or_else(|error| panic!("{error}"));
            let mut config = Config::new("/x".into(), "ann".to_owned());
            config.apply(&file, &Resources::default()).unwrap();
            assert!(!config.platforms.is_empty(), "{}", path.display());
            seen.extend(config.platforms.into_iter().map(|(spec, _)| spec.adapter));
        }
        let all: BTreeSet<String> = adapters::all_names().map(str::to_owned).collect();
        assert_eq!(all.difference(&seen).collect::<Vec<_>>(), ["local"], "each kind has one");
    }

    #[test]
    fn what_the_file_is_silent_on_stays() {
        let mut config = Config::new("/x".into(), "ann".to_owned());
        config.listen_port = Some(1);
        let before = config.settings;
        config.apply(&parse("# nothing\n\n").unwrap(), &host()).unwrap();
        assert_eq!((config.listen_port, config.settings), (Some(1), before));
        let file = parse("limits: {grace: 5s}\nplatforms: [{name: a, adapter: local}]").unwrap();
        config.apply(&file, &host()).unwrap();
        assert_eq!(config.settings.grace, Span::from_secs(5));
        assert_eq!(config.settings.prefetch, before.prefetch);
        assert_eq!(config.platforms[0].0.capacity, host());
        let error = config.apply(&file, &Resources::default()).unwrap_err();
        assert!(matches!(error, ConfigError::Platform(_)));
    }

    #[track_caller]
    fn check_refused(text: &str, expected: &[&str]) {
        let expected: Vec<String> = expected.iter().map(|line| format!("manager.yaml:{line}")).collect();
        assert_eq!(parse(text).unwrap_err().lines().collect::<Vec<_>>(), expected, "{text}");
    }

    #[test]
    fn mistakes_are_told_with_line_and_field() {
        for (text, expected) in [
            ("tls: maybe", "1: tls: found `maybe`; write one of `auto`, `on`, `off`"),
            (
                "listen:\n  host: 127.0.0.1\n  prot: 1",
                "3: listen.prot: found an unknown field; did you mean `port`?",
            ),
            (
                "quotas:\n  default: {priority: mine}",
                "2: quotas.default.priority: found `mine`; write `own` or `all`",
            ),
            (
                "quotas:\n  user:\n    ann: {}",
                "2: quotas.user: found an unknown field; did you mean `users`?",
            ),
            ("listen:\n  port: 70000", "2: listen.port: found `70000`; write a whole number up to 65535"),
            (
                "listen:\n  host: here",
                "2: listen.host: found `here`; write an address like 127.0.0.1, 0.0.0.0 or ::1",
            ),
            ("\n\nlimits:\n  grace: 10", "4: limits.grace: found `10`; give it a unit, like 10s or 10m"),
            (
                "limits:\n  grace: 10 parsecs",
                "2: limits.grace: found `10 parsecs`; `parsecs` is not a unit; the units are ms, s, m, h and d",
            ),
            ("limits:\n  heartbeat_limit: 1ms", "2: limits.heartbeat_limit: found 1ms; write 1s or more"),
            (
                "limits:\n  node_retries: many",
                "2: limits.node_retries: found the text \"many\"; write a whole number, not negative",
            ),
            (
                "limits:\n  prefetch: [1]",
                "2: limits.prefetch: found a list; write a duration like 10s, 1h 30m or 500ms",
            ),
            ("policies:\n  matching: fiffo", "2: policies.matching: found `fiffo`; did you mean `fifo`?"),
            (
                "policies: {allocation: fair}",
                "1: policies.allocation: found `fair`; the policies of allocation here are none, equal, paf-N, aaf-N, \
                 pa-rr",
            ),
            (
                "policies: {stealing: fifo}",
                "1: policies.stealing: found `fifo`; the policies of stealing here are none, mlb, mdl, rlds, flds, lend",
            ),
            ("policies: {placement: [tla]}", "1: policies.placement: found a list; write a string"),
        ] {
            check_refused(text, &[expected]);
        }
    }

    #[test]
    fn mistakes_in_platforms_are_told_with_their_place_in_the_list() {
        for (text, expected) in [
            ("platforms:\n  - name: a", "2: platforms[0]: found no `adapter`; it is needed"),
            (
                "platforms:\n  - {name: a b, adapter: local}",
                "2: platforms[0].name: found name `a b`; write 1 to 64 letters, digits, `-` and `_`",
            ),
            (
                "platforms:\n  - {name: a, adapter: local}\n  - name: b\n    adapter: slurmy",
                "4: platforms[1].adapter: found `slurmy`; the adapters are local, hosts, gridengine, loadleveler, pbs, slurm, openstack",
            ),
            (
                "platforms:\n  - {name: a, adapter: gridengine,\n     cores: 2}",
                "3: platforms[0].cores: found cores 2 and no parallel_environment of `a`; name one that gives them on \
                 one host, of those that `qconf -spl` lists (`qconf -sp NAME` says `allocation_rule $pe_slots`)",
            ),
            (
                "platforms:\n  - {name: a, adapter: slurm, cores: 2,\n     gpu_resource: gpu}",
                "3: platforms[0].gpu_resource: found a parallel_environment, memory_resource or gpu_resource of `a`; \
                 only platforms with adapter gridengine have them, and the latter two those with loadleveler",
            ),
            (
                "platforms:\n  - {name: a, adapter: local, cores: 0}",
                "2: platforms[0].cores: found cores 0 of `a`; a pilot has at least 1",
            ),
            (
                "platforms:\n  - {name: a, adapter: local, memory: 8}",
                "2: platforms[0].memory: found `8`; give it a unit, like 8MiB or 8GiB",
            ),
            (
                "platforms:\n  - {name: a, adapter: local, pilots_max: 0}",
                "2: platforms[0].pilots_max: found pilots_max 0 of `a`; write 1 to 100000",
            ),
            (
                "platforms:\n  - {name: a, adapter: local, pilots_min: 2}",
                "2: platforms[0].pilots_min: found pilots_min 2 of `a`; it must not be above pilots_max 1",
            ),
            (
                "platforms:\n  - {name: a, adapter: local, poll_interval: 0}",
                "2: platforms[0].poll_interval: found poll_interval 0 of `a`; write 1s or more",
            ),
            (
                "platforms:\n  - {name: a, adapter: local}\n  - {name: a, adapter: local}",
                "3: platforms[1].name: found a second platform of the name `a`; name them differently",
            ),
            (
                "platforms:\n  - {name: a, adapter: local, queued_max: 0}",
                "2: platforms[0].queued_max: found queued_max 0 of `a`; write 1 or more, or leave it out",
            ),
            (
                "platforms:\n  - {name: a, adapter: local, core_hours: 10}",
                "2: platforms[0].core_hours: found core_hours and no walltime of `a`; say how long a pilot may live, or \
                 nobody knows what it costs",
            ),
            (
                "platforms:\n  - {name: a, adapter: local, walltime: 1h, core_hours: -10}",
                "2: platforms[0].core_hours: found `-10`; write a number of core-hours like 5000 or \
                 0.5",
            ),
            (
                "platforms:\n  - {name: a, adapter: local, walltime: 1h, budget: 10}",
                "2: platforms[0].budget: found budget and no price of `a`; say what it costs: `price: {core_hour: 0.04, \
                 currency: EUR}`",
            ),
            (
                "platforms:\n  - {name: a, adapter: local, price: {core_hour: .nan, currency: EUR}}",
                "2: platforms[0].price: found NaN; write an amount from 0.000001 to 1000000000000",
            ),
            (
                "platforms:\n  - {name: a, adapter: local, scaling: {by: placement, ratio_max: 2}}",
                "2: platforms[0].scaling: found scaling by placement of `a`; only platforms with adapter openstack have that: \
                 write `by: slots`",
            ),
            (
                "platforms:\n  - {name: a, adapter: openstack, cores: 1, openstack: {image: b}, scaling: {by: placement, \
                 ratio_max: 2}}",
                "2: platforms[0].scaling: found scaling by placement of `a` and no aggregate; say in `openstack` which hosts: \
                 `aggregate: NAME`, or `all`",
            ),
            (
                "platforms:\n  - {name: a, adapter: local, scaling: {ratio_max: 99}}",
                "2: platforms[0].scaling: found 99; write how many vCPUs a core may stand for, 1 to 16",
            ),
            (
                "platforms:\n  - {name: a, adapter: slurm, cores: 1, nodes: 0}",
                "2: platforms[0].nodes: found nodes 0 of `a`; write 1 or more",
            ),
            (
                "platforms:\n  - {name: a, adapter: slurm, cores: 1, nodes: 4, pilots_max: 3}",
                "2: platforms[0].nodes: found nodes 4 and pilots_max 3 of `a`; each node of an allocation brings a pilot, so \
                 allow 4 or more",
            ),
            (
                "platforms:\n  - {name: a, adapter: hosts, ssh: b, cores: 1, nodes: 2, pilots_max: 3}",
                "2: platforms[0].nodes: found nodes 2 of `a`; an allocation of adapter hosts has one node: leave it out",
            ),
            ("tls: on\ntls: off", "2: tls: found the field a second time (first in line 1); write it once"),
            ("- 1", " found a list; write a mapping"),
            ("platforms: {}", "1: platforms: found a mapping; write a list"),
            ("limits: 5", "1: limits: found `5`; write a mapping"),
            ("tls: [on]", "1: tls: found a list; write one of its words"),
            (
                "limits: {node_retries: -1}",
                "1: limits.node_retries: found `-1`; write a whole number, not negative",
            ),
        ] {
            check_refused(text, &[expected]);
        }
    }

    #[test]
    fn all_mistakes_of_a_platform_are_told_with_the_lines_of_their_fields() {
        check_refused(
            "platforms:\n  - name: a\n    adapter: local\n    memory: 8\n    cores: 0\n    pilots_max: 0\n    pilots_min: 2\n    \
             queued_max: 0",
            &[
                "4: platforms[0].memory: found `8`; give it a unit, like 8MiB or 8GiB",
                "5: platforms[0].cores: found cores 0 of `a`; a pilot has at least 1",
                "6: platforms[0].pilots_max: found pilots_max 0 of `a`; write 1 to 100000",
                "8: platforms[0].queued_max: found queued_max 0 of `a`; write 1 or more, or leave it out",
            ],
        );
    }

    #[test]
    fn mistakes_in_stores_are_told_with_their_place_in_the_list() {
        check_refused(
            "stores:\n  - {name: a, kind: s4, bucket: b}\n  - {name: b, kind: sftp}\n  - {name: c, kind: s3, buckt: x}\n  \
             - {name: b, kind: sftp, ssh: h, users: ann}\n  - {name: d, kind: sftp, ssh: h, bucket: b}",
            &[
                "2: stores[0].kind: found `s4`; write one of `s3`, `swift`, `http`, `sftp`",
                "3: stores[1]: found no `ssh`; it is needed",
                "4: stores[2].buckt: found an unknown field; did you mean `bucket`?",
                "5: stores[3].name: found a second store of the name `b`; name them differently",
                "5: stores[3].users: found the text \"ann\"; write a list",
                "6: stores[4].bucket: found `bucket` of `d`; stores of another kind have it: take it out",
            ],
        );
    }

    #[test]
    fn all_mistakes_of_a_file_are_told() {
        check_refused(
            "lisen: {port: 1}\nplatfroms: []\nlimits:\n  grase: 1m\n  prefetch: 5\nplatforms:\n  - {nam: a, adapter: slurmy, memory: 8}\n  - {name: b}\ncolour: red",
            &[
                "1: lisen: found an unknown field; did you mean `listen`?",
                "2: platfroms: found an unknown field; did you mean `platforms`?",
                "4: limits.grase: found an unknown field; did you mean `grace`?",
                "5: limits.prefetch: found `5`; give it a unit, like 5s or 5m",
                "7: platforms[0].nam: found an unknown field; did you mean `name`?",
                "7: platforms[0].adapter: found `slurmy`; the adapters are local, hosts, gridengine, loadleveler, pbs, slurm, openstack",
                "7: platforms[0].memory: found `8`; give it a unit, like 8MiB or 8GiB",
                "8: platforms[1]: found no `adapter`; it is needed",
                "9: colour: found an unknown field; the fields here are listen, tls, platforms, stores, policies, limits, quotas",
            ],
        );
    }

    #[test]
    fn what_is_no_yaml_is_told_with_its_place() {
        let said = parse("platforms:\n  - {name: a\ntls: on\n").unwrap_err();
        assert!(said.starts_with("manager.yaml:") && said.contains("opened in line 2"), "{said}");
    }
}
