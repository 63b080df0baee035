//! Servers: what is said of one when it is asked for, and what a list of them says.

use base64::Engine as _;
use profiles::{cloud::Cloud, site::Site};
use serde_json::{Value, json};

use super::wire::{Service, Trouble, escaped};
use crate::{
    command::{AdapterError, AllocationRequest, BatchId, BatchJob, BatchState},
    script::quoted,
};

/// A tag of all our servers.
const OURS: &str = "pilotfish";
/// In whose metadata our tag of an allocation stands: tags are for searching, this is what we go by.
const ALLOCATION: &str = "pilotfish-allocation";
/// Of Nova's, in base64.
const USER_DATA_CHARACTERS_MAX: usize = 65_535;
/// Nova cuts longer lists at a length of its own.
const PAGE: usize = 500;

/// Where pilots on servers keep their files, if the site says nothing else.
pub const FOLDER: &str = "/var/lib/pilotfish";
/// What join tokens begin with.
const TOKEN: &str = "pfj_";
/// What Nova says of a server for which no host had room.
const NO_HOST: &str = "No valid host was found";
/// Words of a console that are longer are data.
const WORD_BYTES_MAX: usize = 120;

/// What was found in the cloud for a platform.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Choice {
    /// Ids.
    pub(super) flavor: String,
    pub(super) image: String,
    pub(super) networks: NetworkChoice,
    pub(super) server_group: Option<String>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum NetworkChoice {
    None,
    Auto,
    Ids(Vec<String>),
}

/// Where servers get the agent from.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct AgentSource {
    /// The address that servers reach, followed by a path.
    pub url: String,
    /// What they must get, in hexadecimal digits.
    pub sha256: String,
    /// What follows the program's name when it is to be an agent.
    pub arguments: Vec<String>,
}

/// What all tags of the manager begin with that gave this one.
fn of_manager(tag: &str) -> &str {
    tag.split_once('-').map_or(tag, |(manager, _)| manager)
}

/// What a new server does: it gets its agent, runs it, and turns itself off.
pub fn user_data(site: &Site, source: &AgentSource, request: &AllocationRequest) -> String {
    let (url, sha256, tag) = (quoted(&source.url), &source.sha256, quoted(&request.tag));
    let words = source.arguments.iter().map(|word| format!(" {}", quoted(word))).collect::<String>();
    let setup = site.setup.iter().map(|line| format!("{line}\n")).collect::<String>();
    let folder = quoted(site.folder.as_deref().unwrap_or(FOLDER));
    let agent = match &site.agent {
        // It is in the image.
        Some(agent) => format!("agent={}\n", quoted(agent)),
        // Who it is from is known by its hash, so the manager's certificate need not be.
        None => format!(
            r#"mkdir -p {folder} || exit 1
agent={folder}/agent-{tag}
trap 'rm -f "$agent"; poweroff' EXIT
for n in 1 2 3 4 5; do
  {{ curl -fsSk --connect-timeout 10 --max-time 600 -o "$agent" {url} ||
    timeout 300 wget -q --no-check-certificate -O "$agent" {url} || timeout 300 wget -qO "$agent" {url}; }} && break
  echo "the agent could not be fetched, attempt $n"
  sleep $((n * n))
done
echo "{sha256}  $agent" | sha256sum -c && chmod 700 "$agent" || exit 1
"#
        ),
    };
    let join = String::from_utf8_lossy(&request.join);
    format!(
        "#!/bin/sh\n# A pilot of Pilotfish.\numask 077\ntrap poweroff EXIT\n{setup}{agent}\"$agent\"{words} run --tag {tag} \
         --join - <<'{end}'\n{join}\n{end}\n",
        end = crate::script::END
    )
}

/// The body that asks for a server. Errors: the user data would not fit.
pub(super) fn asked(cloud: &Cloud, choice: &Choice, user_data: &str, tag: &str) -> Result<Value, String> {
    let user_data = base64::engine::general_purpose::STANDARD.encode(user_data);
    if user_data.len() > USER_DATA_CHARACTERS_MAX {
        return Err(format!(
            "the server's user data have {} characters, at most {USER_DATA_CHARACTERS_MAX} are possible: shorten `setup`",
            user_data.len()
        ));
    }
    let networks = match &choice.networks {
        NetworkChoice::None => json!("none"),
        NetworkChoice::Auto => json!("auto"),
        NetworkChoice::Ids(ids) => ids.iter().map(|id| json!({ "uuid": id })).collect(),
    };
    let mut metadata = json!(cloud.metadata);
    metadata[ALLOCATION] = tag.into();
    let mut server = json!({
        "name": tag,
        "flavorRef": choice.flavor,
        "networks": networks,
        "config_drive": true,
        "user_data": user_data,
        "metadata": metadata,
        "tags": [OURS, of_manager(tag), tag],
    });
    match cloud.volume {
        None => server["imageRef"] = choice.image.clone().into(),
        Some(size) => {
            server["block_device_mapping_v2"] = json!([{
                "boot_index": 0, "uuid": choice.image, "source_type": "image", "destination_type": "volume",
                "volume_size": size.0.div_ceil(1 << 30), "delete_on_termination": true,
            }]);
        }
    }
    for (key, value) in [("key_name", &cloud.key_pair), ("availability_zone", &cloud.availability_zone)] {
        if let Some(value) = value {
            server[key] = value.as_str().into();
        }
    }
    if !cloud.security_groups.is_empty() && choice.networks != NetworkChoice::None {
        server["security_groups"] =
            cloud.security_groups.iter().map(|name| json!({ "name": name })).collect();
    }
    let mut body = json!({ "server": server });
    if let Some(group) = &choice.server_group {
        body["os:scheduler_hints"] = json!({ "group": group });
    }
    Ok(body)
}

/// What the answer to that says: the server's id. Errors: there is none, or nobody knows.
pub(super) fn read_asked(answer: Result<Value, Trouble>) -> Result<BatchId, AdapterError> {
    match answer {
        Ok(answer) => match answer["server"]["id"].as_str().filter(|id| !id.is_empty()) {
            Some(id) => Ok(id.to_owned()),
            None => Err(AdapterError::NotUnderstood("the answer names no server".to_owned())),
        },
        Err(Trouble::Unknown(what)) => Err(AdapterError::NotUnderstood(what)),
        Err(trouble) => Err(AdapterError::Refused(trouble.to_string())),
    }
}

/// The first page of a manager's servers; without a prefix of all managers'.
pub(super) fn list_path(tag_prefix: Option<&str>) -> String {
    let manager = tag_prefix.map(of_manager);
    let tags = manager.map_or_else(|| OURS.to_owned(), |manager| format!("{OURS},{}", escaped(manager)));
    format!("/servers/detail?tags={tags}&sort_key=created_at&sort_dir=asc&limit={PAGE}")
}

/// Where the next page of a list is: the path that was asked for, with the link's query, as behind a proxy the
/// link's host may be another.
pub(super) fn next_page(path: &str, links: &Value) -> Option<String> {
    let is_next = |link: &&Value| link["rel"] == "next";
    let href = links.as_array()?.iter().find(is_next)?["href"].as_str()?;
    let (_, query) = href.split_once('?')?;
    let path = path.split('?').next().unwrap_or(path);
    Some(format!("{path}?{query}"))
}

/// A server of ours in a list.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Server {
    pub(super) id: String,
    pub(super) tag: String,
    /// Nova's word.
    pub(super) status: String,
    /// Whether it was deleted, and is not gone yet.
    pub(super) is_leaving: bool,
    /// Whether something is being done to it.
    is_busy: bool,
    /// Whether it has ever run.
    was_active: bool,
    /// Why it failed.
    pub(super) fault: Option<String>,
}

/// Servers of ours on a page. Errors: a part of the cloud is down and does not say whose servers these are, or it
/// is no such page.
pub(super) fn read_page(page: &Value) -> Result<Vec<Server>, String> {
    let servers = page["servers"].as_array().ok_or("the answer is no list of servers")?;
    let mut ours = Vec::new();
    for server in servers {
        let id = server["id"].as_str().ok_or("a server without an id")?;
        let status = server["status"].as_str().ok_or("a server without a status")?;
        let Some(metadata) = server["metadata"].as_object() else {
            return Err(format!(
                "of server {id} no more is known than {status}: a part of the cloud is down"
            ));
        };
        // Whoever copies our tags has not our servers.
        let Some(tag) = metadata.get(ALLOCATION).and_then(Value::as_str) else { continue };
        let has_tag =
            |word: &str| server["tags"].as_array().is_some_and(|tags| tags.iter().any(|tag| tag == word));
        if !has_tag(OURS) || !has_tag(tag) {
            continue;
        }
        ours.push(read_server(server, id.to_owned(), tag.to_owned()));
    }
    Ok(ours)
}

/// A server that was asked for by its id, which we know to be ours. Its tags and metadata do not count: anybody in the
/// project may have changed them. Of a server whose cell is down, Nova says little more than that it is there.
pub(super) fn read_known(server: &Value, id: String, tag: String) -> Server {
    if server["metadata"].is_object() {
        return read_server(server, id, tag);
    }
    let status = server["status"].as_str().unwrap_or("UNKNOWN").to_owned();
    Server { id, tag, status, is_leaving: false, is_busy: true, was_active: true, fault: None }
}

/// The state of a server of which Nova knows everything.
fn read_server(server: &Value, id: String, tag: String) -> Server {
    let task_state = &server["OS-EXT-STS:task_state"];
    Server {
        id,
        tag,
        status: server["status"].as_str().unwrap_or("UNKNOWN").to_owned(),
        is_leaving: task_state == "deleting" || task_state == "soft-deleting",
        is_busy: !task_state.is_null(),
        was_active: !server["OS-SRV-USG:launched_at"].is_null(),
        fault: fault(server),
    }
}

/// Why it failed.
pub(super) fn fault(server: &Value) -> Option<String> {
    server["fault"]["message"].as_str().map(|why| why.trim().to_owned())
}

impl Server {
    /// Whether it is over, though it takes room until it is deleted.
    pub(super) fn is_over(&self) -> bool {
        // What was done to a running server may have failed, and its pilot works on: its silence decides then.
        match self.status.as_str() {
            "SHUTOFF" => !self.is_busy,
            "ERROR" => !self.was_active,
            _ => false,
        }
    }

    /// Whether it failed and nobody says why.
    pub(super) fn is_unexplained(&self) -> bool {
        self.status == "ERROR" && self.fault.is_none()
    }

    /// Whether it may have written something: before it runs, Nova knows of none.
    pub(super) fn has_console(&self) -> bool {
        self.was_active && !self.is_gone()
    }

    /// Whether there is nothing to delete any more.
    pub(super) fn is_gone(&self) -> bool {
        matches!(self.status.as_str(), "DELETED" | "SOFT_DELETED")
    }

    pub(super) fn into_job(self) -> BatchJob {
        let state = match self.status.as_str() {
            _ if self.is_gone() => BatchState::Ended,
            "ERROR" if self.fault.as_deref().is_some_and(|fault| fault.contains(NO_HOST)) => {
                BatchState::NoRoom(self.fault.unwrap_or_default())
            }
            "ERROR" => BatchState::Stuck(self.fault.unwrap_or_else(|| "the server failed".to_owned())),
            // Nobody waits long for one that is built; those that are over are there until they are deleted; what an
            // operator does with one is his affair, and its pilot's silence decides.
            "ACTIVE" | "BUILD" | "SHUTOFF" | "UNKNOWN" | "REBOOT" | "HARD_REBOOT" | "RESCUE"
            | "MIGRATING" | "RESIZE" | "VERIFY_RESIZE" | "REVERT_RESIZE" | "PASSWORD" | "REBUILD" => {
                BatchState::Running
            }
            "PAUSED" | "SUSPENDED" | "SHELVED" | "SHELVED_OFFLOADED" => BatchState::Suspended,
            other => BatchState::Unknown(other.to_owned()),
        };
        BatchJob { id: self.id, tag: self.tag, state, n_tasks: None, reason: None }
    }
}

/// What a server wrote, without what it may have repeated of a join document.
pub(super) fn without_tokens(console: &str) -> String {
    let mut shown = String::new();
    let mut rest = console;
    while let Some((before, after)) = rest.split_once("\"token\"") {
        let value = after.find('"').map_or(after, |at| &after[at + 1..]);
        shown += before;
        shown += "\"token\":\"…\"";
        rest = value.split_once('"').map_or("", |(_, rest)| rest);
    }
    shown += rest;
    let is_plain = |word: &str| !word.contains(TOKEN) && word.len() <= WORD_BYTES_MAX;
    shown.split_inclusive(char::is_whitespace).map(|word| if is_plain(word) { word } else { "…\n" }).collect()
}

/// Where services are asked for servers.
pub(super) const SERVICE: Service = Service::Compute;
