//! What of a cloud a platform uses: flavor, image, networks. Names are not unique there.

use std::collections::BTreeSet;

use profiles::cloud::Networks;
use scheduler::resources::Resources;
use serde_json::Value;

use super::servers::NetworkChoice;

/// A kind of server.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Flavor {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) vcpus: u64,
    pub(super) ram_mib: u64,
    pub(super) disk_gib: u64,
}

impl Flavor {
    fn has(&self, capacity: &Resources) -> bool {
        self.vcpus >= u64::from(capacity.cores) && self.ram_mib >= capacity.memory_bytes.div_ceil(1 << 20)
    }

    /// What its servers offer to tasks: the system takes a part of the memory.
    pub(super) fn capacity(&self) -> Resources {
        let cores = u32::try_from(self.vcpus).unwrap_or(u32::MAX);
        Resources { memory_bytes: (self.ram_mib << 20) / 10 * 9, ..Resources::cores(cores) }
    }

    /// For people.
    pub(super) fn words(&self) -> String {
        format!("{} ({} vCPUs, {} MiB)", self.name, self.vcpus, self.ram_mib)
    }
}

/// The flavors of a page that can be used. Errors: it is no such page.
pub(super) fn read_flavors(page: &Value) -> Result<Vec<Flavor>, String> {
    let of = |flavor: &Value| {
        Some(Flavor {
            id: flavor["id"].as_str()?.to_owned(),
            name: flavor["name"].as_str()?.to_owned(),
            vcpus: flavor["vcpus"].as_u64()?,
            ram_mib: flavor["ram"].as_u64()?,
            disk_gib: flavor["disk"].as_u64()?,
        })
    };
    let all = page["flavors"].as_array().ok_or("the answer is no list of flavors")?;
    let usable = all.iter().filter(|flavor| flavor["OS-FLV-DISABLED:disabled"] != true);
    usable.map(|flavor| of(flavor).ok_or_else(|| "a flavor without its numbers".to_owned())).collect()
}

/// The flavor of that name or id, or the smallest that has what a pilot offers. Errors: which there are.
pub(super) fn choose_flavor(
    flavors: &[Flavor],
    wanted: Option<&str>,
    capacity: &Resources,
) -> Result<Flavor, String> {
    let all = || flavors.iter().map(Flavor::words).collect::<Vec<_>>().join(", ");
    let Some(wanted) = wanted else {
        let fitting = flavors.iter().filter(|flavor| flavor.has(capacity));
        let smallest = fitting.min_by_key(|f| (f.vcpus, f.ram_mib, f.disk_gib, f.name.clone()));
        return smallest.cloned().ok_or_else(|| format!("no flavor has {capacity}; there are {}", all()));
    };
    let found: Vec<&Flavor> =
        flavors.iter().filter(|flavor| [&flavor.id, &flavor.name].contains(&&wanted.to_owned())).collect();
    match found[..] {
        [] => Err(format!("found no flavor `{wanted}`; there are {}", all())),
        [flavor] if flavor.has(capacity) => Ok(flavor.clone()),
        [flavor] => Err(format!("flavor {} has not what a pilot is to offer, {capacity}", flavor.words())),
        _ => Err(several("flavor", wanted, found.iter().map(|flavor| flavor.id.as_str()))),
    }
}

/// How many servers of that flavor a project may have, by its limits; `None`: they have none.
pub(super) fn n_servers_max(limits: &Value, flavor: &Flavor) -> Option<u32> {
    let limits = &limits["limits"]["absolute"];
    let fit = |most: &str, each: u64| {
        let most = u64::try_from(limits[most].as_i64()?).ok()?;
        u32::try_from(most / each.max(1)).ok()
    };
    let of_each =
        [("maxTotalInstances", 1), ("maxTotalCores", flavor.vcpus), ("maxTotalRAMSize", flavor.ram_mib)];
    of_each.into_iter().filter_map(|(most, each)| fit(most, each)).min()
}

/// What a project uses of what it may use, in words.
pub(super) fn in_use(limits: &Value) -> String {
    let limits = &limits["limits"]["absolute"];
    let of = |what: &str, used: &str, most: &str| {
        let used = limits[used].as_i64()?;
        Some(match limits[most].as_i64()? {
            most if most < 0 => format!("{used} {what}, no limit"),
            most => format!("{used} of {most} {what}"),
        })
    };
    let all = [
        of("servers", "totalInstancesUsed", "maxTotalInstances"),
        of("vCPUs", "totalCoresUsed", "maxTotalCores"),
        of("MiB of memory", "totalRAMUsed", "maxTotalRAMSize"),
    ];
    all.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// The id of the thing of that name or id. Errors: there is none, or more than one.
pub(super) fn choose(kind: &str, things: &Value, wanted: &str) -> Result<String, String> {
    let text = |thing: &'_ Value, key: &str| thing[key].as_str().map(str::to_owned);
    let things = things.as_array().ok_or_else(|| format!("the answer is no list of {kind}s"))?;
    let is_meant = |thing: &&Value| ["id", "name"].iter().any(|key| thing[*key] == wanted);
    let found: Vec<String> = things.iter().filter(is_meant).filter_map(|thing| text(thing, "id")).collect();
    let names = || {
        let names: BTreeSet<String> = things.iter().filter_map(|thing| text(thing, "name")).collect();
        names.into_iter().collect::<Vec<_>>().join(", ")
    };
    match &found[..] {
        [] if things.is_empty() => Err(format!("found no {kind} `{wanted}`")),
        [] => Err(format!("found no {kind} `{wanted}`; there are {}", names())),
        [id] => Ok(id.clone()),
        ids => Err(several(kind, wanted, ids.iter().map(String::as_str))),
    }
}

fn several<'a>(kind: &str, name: &str, ids: impl Iterator<Item = &'a str>) -> String {
    format!("found several {kind}s `{name}`; write the id of one: {}", ids.collect::<Vec<_>>().join(", "))
}

/// What servers are connected to, of the networks that there are. Errors: which it is to be.
pub(super) fn choose_networks(networks: &Value, wanted: Option<&Networks>) -> Result<NetworkChoice, String> {
    match wanted {
        Some(Networks::None) => Ok(NetworkChoice::None),
        Some(Networks::Auto) => Ok(NetworkChoice::Auto),
        Some(Networks::Of(names)) => {
            let ids = names.iter().map(|name| choose("network", networks, name));
            ids.collect::<Result<_, _>>().map(NetworkChoice::Ids)
        }
        None => {
            let all = networks.as_array().ok_or("the answer is no list of networks")?;
            let inner: Vec<&Value> =
                all.iter().filter(|network| network["router:external"] != true).collect();
            let mut names: Vec<&str> = inner.iter().filter_map(|network| network["name"].as_str()).collect();
            names.sort_unstable();
            match inner[..] {
                [network] => {
                    Ok(NetworkChoice::Ids(network["id"].as_str().map(str::to_owned).into_iter().collect()))
                }
                [] => Err("found no network; set `networks: none`, `auto`, or a name".to_owned()),
                _ => Err(format!("found several networks; set `networks:`, one of {}", names.join(", "))),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn capacity(cores: u32, mib: u64) -> Resources {
        Resources { cores, memory_bytes: mib << 20, ..Resources::default() }
    }

    fn flavors() -> Vec<Flavor> {
        let of = |id: &str, vcpus: u64, ram: u64| json!({ "id": id, "name": format!("m{vcpus}"), "vcpus": vcpus, "ram": ram, "disk": 1 });
        let mut off = of("off", 2, 600);
        off["OS-FLV-DISABLED:disabled"] = true.into();
        read_flavors(&json!({ "flavors": [of("c", 4, 1024), of("a", 1, 256), off, of("b", 2, 512), of("d", 2, 4096)] })).expect("flavors")
    }

    #[test]
    fn the_smallest_flavor_that_fits_is_taken() {
        let chosen =
            |cores, mib| choose_flavor(&flavors(), None, &capacity(cores, mib)).map(|flavor| flavor.id);
        assert_eq!(chosen(1, 0), Ok("a".into()));
        assert_eq!(chosen(1, 300), Ok("b".into()));
        assert_eq!(chosen(2, 600), Ok("d".into()), "one that is disabled would be smaller");
        assert_eq!(chosen(3, 0), Ok("c".into()));
        let error = chosen(8, 0).expect_err("too large");
        assert!(error.contains("m4 (4 vCPUs, 1024 MiB)"), "{error}");
    }

    #[test]
    fn a_flavor_that_is_named_must_be_there_once_and_fit() {
        let chosen = |name: &str| choose_flavor(&flavors(), Some(name), &capacity(2, 500));
        assert_eq!(chosen("b").map(|flavor| flavor.id), Ok("b".into()));
        assert!(chosen("m2").expect_err("two").contains("write the id of one: b, d"));
        assert!(chosen("m1").expect_err("small").contains("has not what"));
        assert!(chosen("x").expect_err("none").contains("there are m4"));
    }

    #[test]
    fn names_that_are_not_unique_are_refused() {
        let images = json!([{ "id": "1", "name": "debian" }, { "id": "2", "name": "debian" }, { "id": "3", "name": "x" }]);
        assert_eq!(choose("image", &images, "x"), Ok("3".into()));
        assert_eq!(choose("image", &images, "2"), Ok("2".into()));
        assert_eq!(
            choose("image", &images, "debian"),
            Err("found several images `debian`; write the id of one: 1, 2".into())
        );
        assert!(choose("image", &images, "y").expect_err("none").contains("there are debian, x"));
    }

    #[test]
    fn the_only_network_need_not_be_named() {
        let network = |id: &str, is_external: bool| json!({ "id": id, "name": format!("n{id}"), "router:external": is_external });
        let one = json!([network("1", false), network("2", true)]);
        assert_eq!(choose_networks(&one, None), Ok(NetworkChoice::Ids(vec!["1".into()])));
        let two = json!([network("1", false), network("3", false)]);
        assert!(choose_networks(&two, None).expect_err("which").contains("one of n1, n3"));
        assert!(choose_networks(&json!([]), None).is_err());
        let named = Networks::Of(vec!["n3".into(), "1".into()]);
        assert_eq!(choose_networks(&two, Some(&named)), Ok(NetworkChoice::Ids(vec!["3".into(), "1".into()])));
        assert_eq!(choose_networks(&json!([]), Some(&Networks::None)), Ok(NetworkChoice::None));
    }
}
