//! `manager.yaml`: its form, and errors that name file, line, field, what was found and what would be
//! right. `docs/manager.yaml` is an example of everything.

use std::{
    collections::BTreeSet,
    fs, io,
    net::IpAddr,
    path::{Path, PathBuf},
};

use profiles::{
    platform::{PlatformError, PlatformProfile},
    quantity::{Duration, Quantity},
};
use scheduler::{engine::settings::Settings, policy::Policies};
use serde::{Deserialize, Deserializer, de::Error as _};

use super::TlsMode;

/// No file is larger: hundreds of platforms fit.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Why a configuration is refused.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("failed to read {}: {source}", .path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The file is too large.
    #[error("found a file of {found} bytes in {}, the most is {FILE_BYTES_MAX}", .path.display())]
    TooLong {
        /// The file.
        path: PathBuf,
        /// Its length.
        found: u64,
    },
    /// A mistake in it. `problem`: `field: found …; what would be right`.
    #[error("{}:{line}: {problem}", .path.display())]
    Content {
        /// The file.
        path: PathBuf,
        /// Counted from 1.
        line: usize,
        /// The field, what was found, and what would be right.
        problem: String,
    },
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
    #[serde(deserialize_with = "distinct_platforms")]
    pub platforms: Vec<PlatformProfile>,
    /// Which policy each layer uses.
    pub policies: Option<Policies>,
    /// Limits and intervals of the engine.
    pub limits: Limits,
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
}

/// The engine's settings that the file changes; see [`Settings`] for what they are.
#[derive(Clone, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    heartbeat_limit: Option<Duration>,
    poll_wait_max: Option<Duration>,
    grace: Option<Duration>,
    prefetch: Option<Duration>,
    prefetch_tasks_max: Option<u64>,
    node_retries: Option<u32>,
    start_retries: Option<u32>,
    node_retry_delay: Option<Duration>,
    retry_delay_max: Option<Duration>,
    black_hole_limit: Option<u32>,
    platform_delay: Option<Duration>,
    platform_delay_max: Option<Duration>,
    walltime_margin: Option<Duration>,
}

impl ManagerFile {
    /// Reads a file.
    ///
    /// # Errors
    /// A file that cannot be read, is too long, or its first mistake.
    pub fn load(path: &Path) -> Result<ManagerFile, ConfigError> {
        let file_error = |source| ConfigError::File { path: path.to_owned(), source };
        let found = fs::metadata(path).map_err(file_error)?.len();
        if found > FILE_BYTES_MAX {
            return Err(ConfigError::TooLong { path: path.to_owned(), found });
        }
        ManagerFile::parse(&fs::read_to_string(path).map_err(file_error)?, path)
    }

    /// Reads the text of a file; `path` is what errors call it.
    ///
    /// # Errors
    /// Its first mistake.
    pub fn parse(text: &str, path: &Path) -> Result<ManagerFile, ConfigError> {
        if text.lines().all(|line| line.trim().is_empty() || line.trim_start().starts_with('#')) {
            return Ok(ManagerFile::default());
        }
        let content = |error: serde_yaml::Error| ConfigError::Content {
            path: path.to_owned(),
            line: error.location().map_or(1, |location| location.line()),
            problem: problem_of(&error),
        };
        // The profile does not know the adapters, and of a whole list no line could be told.
        if let Err(error) = serde_yaml::from_str::<AdaptersOnly>(text)
            && error.to_string().contains(KNOWN_ADAPTERS)
        {
            return Err(content(error));
        }
        serde_yaml::from_str(text).map_err(content)
    }
}

/// What is said of an unknown adapter, before those that are known.
const KNOWN_ADAPTERS: &str = "the adapters are";

/// Nothing of the file but its platforms' adapters.
#[derive(Deserialize)]
struct AdaptersOnly {
    #[serde(rename = "platforms")]
    _platforms: Vec<AdapterOnly>,
}

#[derive(Deserialize)]
struct AdapterOnly {
    #[serde(rename = "adapter", deserialize_with = "known_adapter")]
    _adapter: (),
}

fn known_adapter<'de, D: Deserializer<'de>>(deserializer: D) -> Result<(), D::Error> {
    let wanted = "the name of an adapter";
    let parse = |text: &str| {
        let known = adapters::NAMES.join(", ");
        let is_known = adapters::NAMES.contains(&text);
        if is_known { Ok(()) } else { Err(format!("{KNOWN_ADAPTERS} {known}")) }
    };
    deserializer.deserialize_any(Quantity { wanted, parse })
}

impl Limits {
    /// Changes the settings that the file names.
    pub fn apply(&self, settings: &mut Settings) {
        let spans = [
            (self.heartbeat_limit, &mut settings.heartbeat_limit),
            (self.poll_wait_max, &mut settings.poll_wait_max),
            (self.grace, &mut settings.grace),
            (self.prefetch, &mut settings.prefetch),
            (self.node_retry_delay, &mut settings.node_retry_delay),
            (self.retry_delay_max, &mut settings.retry_delay_max),
            (self.platform_delay, &mut settings.platform_delay),
            (self.platform_delay_max, &mut settings.platform_delay_max),
            (self.walltime_margin, &mut settings.walltime_margin),
        ];
        for (said, setting) in spans {
            *setting = said.map_or(*setting, |duration| duration.0);
        }
        settings.prefetch_tasks_max = self.prefetch_tasks_max.unwrap_or(settings.prefetch_tasks_max);
        settings.node_retries = self.node_retries.unwrap_or(settings.node_retries);
        settings.start_retries = self.start_retries.unwrap_or(settings.start_retries);
        settings.black_hole_limit = self.black_hole_limit.unwrap_or(settings.black_hole_limit);
    }
}

fn host<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<IpAddr>, D::Error> {
    let wanted = "an address like 127.0.0.1, 0.0.0.0 or ::1";
    let parse = |text: &str| text.parse().map_err(|_| format!("write {wanted}"));
    deserializer.deserialize_any(Quantity { wanted, parse }).map(Some)
}

fn distinct_platforms<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<PlatformProfile>, D::Error> {
    let platforms = Vec::<PlatformProfile>::deserialize(deserializer)?;
    let mut names = BTreeSet::new();
    for platform in &platforms {
        if !names.insert(platform.name()) {
            let found =
                format!("found two platforms of the name `{}`; name them differently", platform.name());
            return Err(D::Error::custom(found));
        }
    }
    Ok(platforms)
}

/// The library's sentence in ours: `field: found …; what would be right`.
fn problem_of(error: &serde_yaml::Error) -> String {
    let text = error.to_string();
    let text = text.rfind(" at line ").map_or(text.as_str(), |end| &text[..end]);
    let is_field = |field: &str| !field.contains(' ') && !field.is_empty();
    let (field, sentence) = text.split_once(": ").filter(|(field, _)| is_field(field)).unwrap_or(("", text));
    let separator = if field.is_empty() { "" } else { ": " };
    format!("{field}{separator}{}", sentence_of(sentence))
}

fn sentence_of(sentence: &str) -> String {
    let found = ["invalid type: ", "invalid value: "].iter().find_map(|start| sentence.strip_prefix(start));
    if let Some((found, expected)) = found.unwrap_or(sentence).split_once(", expected ") {
        let expected = match expected {
            "u16" => "a whole number up to 65535",
            "u32" | "u64" => "a whole number, not negative",
            "a sequence" => "a list",
            "a YAML tag starting with '!'" => "one of its words",
            form if form.starts_with("struct ") => "a mapping",
            other => other,
        };
        return format!("found {}; write {expected}", kind_of(found));
    }
    if let Some(field) = sentence.strip_prefix("missing field ") {
        return format!("found no {field}; it is needed");
    }
    if let Some(field) = sentence.strip_prefix("duplicate field ") {
        return format!("found {field} twice; write it once");
    }
    match sentence.starts_with("found ") {
        true => sentence.to_owned(),
        false => format!("found no valid YAML; {sentence}"),
    }
}

/// What the library calls a value, in the words of who wrote it.
fn kind_of(found: &str) -> String {
    let kinds = [("sequence", "a list"), ("map", "a mapping"), ("unit value", "nothing"), ("enum", "a tag")];
    if let Some((_, words)) = kinds.iter().find(|(kind, _)| *kind == found) {
        return (*words).to_owned();
    }
    for kind in ["integer ", "floating point ", "boolean ", "unknown variant "] {
        if let Some(value) = found.strip_prefix(kind) {
            return value.to_owned();
        }
    }
    match (found.strip_prefix("string "), found.strip_prefix("unknown field ")) {
        (Some(text), _) => format!("the text {text}"),
        (_, Some(field)) => format!("the unknown field {field}"),
        (None, None) => found.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use scheduler::{engine::settings::Settings, resources::Resources, time::Span};

    use super::{super::Config, ConfigError, ManagerFile};

    fn parse(text: &str) -> Result<ManagerFile, String> {
        ManagerFile::parse(text, Path::new("manager.yaml")).map_err(|error| error.to_string())
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
        let spec = &config.platforms[0];
        assert_eq!((spec.capacity.cores, spec.capacity.memory_bytes), (4, 8 << 30));
        assert_eq!((spec.idle_timeout, spec.walltime), (Span::from_secs(600), Some(Span::from_secs(7200))));
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
        assert_eq!(config.platforms[0].capacity, host());
        let error = config.apply(&file, &Resources::default()).unwrap_err();
        assert!(matches!(error, ConfigError::Platform(_)));
    }

    #[track_caller]
    fn check_refused(text: &str, expected: &str) {
        assert_eq!(parse(text).unwrap_err(), format!("manager.yaml:{expected}"), "{text}");
    }

    #[test]
    fn mistakes_are_told_with_line_and_field() {
        check_refused("tls: maybe", "1: tls: found `maybe`; write one of `auto`, `on`, `off`");
        check_refused(
            "listen:\n  host: 127.0.0.1\n  prot: 1",
            "3: listen: found the unknown field `prot`; write `host` or `port`",
        );
        check_refused(
            "listen:\n  port: 70000",
            "2: listen.port: found `70000`; write a whole number up to 65535",
        );
        check_refused(
            "listen:\n  host: here",
            "2: listen.host: found `here`; write an address like 127.0.0.1, 0.0.0.0 or ::1",
        );
        check_refused(
            "\n\nlimits:\n  grace: 10",
            "4: limits.grace: found `10`; give it a unit, like 10s or 10m",
        );
        check_refused(
            "limits:\n  grace: 10 parsecs",
            "2: limits.grace: found `10 parsecs`; `parsecs` is not a unit; the units are ms, s, m, h and d",
        );
        check_refused(
            "limits:\n  node_retries: many",
            "2: limits.node_retries: found the text \"many\"; write a whole number, not negative",
        );
        check_refused(
            "limits:\n  prefetch: [1]",
            "2: limits.prefetch: found a list; write a duration like 10s, 1h 30m or 500ms",
        );
        check_refused(
            "policies:\n  matching: fiffo",
            "2: policies.matching: found `fiffo`; write `turns` or `fifo`",
        );
        check_refused("platforms:\n  - name: a", "2: platforms[0]: found no `adapter`; it is needed");
        check_refused(
            "platforms:\n  - {name: a b, adapter: local}",
            "2: platforms: found name `a b`; write 1 to 64 letters, digits, `-` and `_`",
        );
        check_refused(
            "platforms:\n  - {name: a, adapter: slurmy}",
            "2: platforms[0].adapter: found `slurmy`; the adapters are local",
        );
        check_refused(
            "platforms:\n  - {name: a, adapter: local}\n  - name: b\n    adapter: slurmy",
            "4: platforms[1].adapter: found `slurmy`; the adapters are local",
        );
        check_refused(
            "platforms:\n  - {name: a, adapter: local, cores: 0}",
            "2: platforms: found cores 0 of `a`; a pilot has at least 1",
        );
        check_refused(
            "platforms:\n  - {name: a, adapter: local, memory: 8}",
            "2: platforms[0].memory: found `8`; give it a unit, like 8MiB or 8GiB",
        );
        check_refused(
            "platforms:\n  - {name: a, adapter: local, pilots_max: 0}",
            "2: platforms: found pilots_max 0 of `a`; write 1 to 100000",
        );
        check_refused(
            "platforms:\n  - {name: a, adapter: local, pilots_min: 2}",
            "2: platforms: found pilots_min 2 of `a`; it must not be above pilots_max 1",
        );
        check_refused(
            "platforms:\n  - {name: a, adapter: local, poll_interval: 0}",
            "2: platforms: found poll_interval 0 of `a`; write 1s or more",
        );
        check_refused(
            "platforms:\n  - {name: a, adapter: local}\n  - {name: a, adapter: local}",
            "1: found two platforms of the name `a`; name them differently",
        );
        check_refused("tls: on\ntls: off", "1: found `tls` twice; write it once");
        check_refused("platforms: {", "1: platforms: found a mapping; write a list");
        check_refused("- 1", "1: found a list; write a mapping");
        check_refused("tls: [on", "1: tls: found a list; write one of its words");
        check_refused(
            "limits: {node_retries: -1}",
            "1: limits.node_retries: found `-1`; write a whole number, not negative",
        );
    }
}
