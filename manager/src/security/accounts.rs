//! Platforms whose tasks have the account of the manager itself: they may read its folder, and so act as any user. A
//! manager of several users has none, unless its operator accepts that.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use adapters::transport::Account;
use profiles::site::Site;
use ring::digest;
use scheduler::{digest::Digest, engine::interface::PlatformSpec};

use crate::security::{
    tokens::SECRET_FILE,
    users::{Sharing, Users},
};

/// What to do about a local platform.
const WAYS_LOCAL: &str = "set `run_as: ACCOUNT` for it in manager.yaml, so that its pilots have another account, or take \
                          it out (`pilotfish platform detach`, or `pilotfish serve --no-local` if no file has it); who \
                          trusts all users with everything sets `allow_shared_account: true` for it, or `pilotfish serve \
                          --allow-shared-account` if no file has it";
/// The same for a host behind SSH.
const WAYS_SSH: &str = "let `ssh` name an account that cannot read this manager's folder, or take the platform out \
                        (`pilotfish platform detach`); who trusts all users with everything sets \
                        `allow_shared_account: true` for it";

/// What is known before anybody looks; of a host behind SSH nothing is.
pub(crate) fn sharing(spec: &PlatformSpec, site: &Site) -> Option<Sharing> {
    if spec.adapter == adapters::openstack::NAME || site.ssh.is_some() || site.run_as.is_some() {
        return None;
    }
    let is_local = spec.adapter == adapters::LOCAL_NAME;
    let why = match is_local {
        true => "its tasks run as the manager's own account, so they can read its secret and act as any user",
        false => {
            "its tasks run as the manager's own account: where its nodes see the manager's folder, they can read its \
             secret and act as any user"
        }
    };
    let is_refused = is_local && !site.allows_shared_account;
    Some(Sharing { why: why.to_owned(), is_refused, ways: WAYS_LOCAL })
}

/// Whether a platform's tasks have an account that is not the manager's own, or nobody minds; takes note of it. The caller
/// has the [turn](crate::security::users::Accounts::turn), until the platform is attached.
///
/// # Errors
/// Its account cannot be used, or others than operators have access: in words.
pub(crate) async fn check(users: &Users, spec: &PlatformSpec, site: &Site) -> Result<(), String> {
    if let Some(name) = &site.run_as {
        let checked = match Account::of(name) {
            Ok(account) => account.check().await,
            Err(what) => Err(what),
        };
        checked.map_err(|what| format!("platform {}: run_as: {what}", spec.name))?;
    }
    let sharing = sharing(spec, site);
    let others = users.untrusted();
    if let Some(sharing) = sharing.as_ref().filter(|_| !others.is_empty()) {
        if sharing.is_refused {
            return Err(refused_platform(&spec.name, sharing, &others));
        }
        tracing::warn!(platform = spec.name, users = ?others, "{}", sharing.why);
    }
    users.accounts().note(&spec.name, sharing);
    Ok(())
}

/// Why nobody else may have access while there is this platform.
pub(crate) fn refused_user(platform: &str, sharing: &Sharing) -> String {
    format!("platform {platform}: {}. So only operators may be added: {}", sharing.why, sharing.ways)
}

/// Why there may not be this platform while these users have access.
pub(crate) fn refused_platform(platform: &str, sharing: &Sharing, users: &[String]) -> String {
    let users = users.join(", ");
    let Sharing { why, ways, .. } = sharing;
    format!("platform {platform}: {why}, and others than operators have access ({users}): {ways}")
}

/// Looks whether a host behind SSH is this one.
#[derive(Clone)]
pub struct AccountCheck {
    users: Arc<Users>,
    platform: String,
    secret: PathBuf,
    is_accepted: bool,
}

impl AccountCheck {
    pub(crate) fn new(users: Arc<Users>, folder: &Path, spec: &PlatformSpec, site: &Site) -> AccountCheck {
        let folder = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
        let (platform, is_accepted) = (spec.name.clone(), site.allows_shared_account);
        AccountCheck { users, platform, secret: folder.join(SECRET_FILE), is_accepted }
    }

    /// Where the manager's secret is.
    pub(crate) fn secret(&self) -> String {
        self.secret.to_string_lossy().into_owned()
    }

    /// Judges by what somebody there found as the SHA-256 of the file of that name.
    ///
    /// # Errors
    /// It is the manager's secret, and others than operators have access: in words.
    pub(crate) async fn judge(&self, found: &str) -> Result<(), String> {
        let _turn = self.users.accounts().turn().await;
        let own = std::fs::read(&self.secret).ok();
        let own = own.and_then(|bytes| Digest::of(digest::digest(&digest::SHA256, &bytes).as_ref()));
        let is_same =
            own.is_some_and(|own| found.split_whitespace().next() == Some(own.to_string().as_str()));
        if !is_same {
            self.users.accounts().note(&self.platform, None);
            return Ok(());
        }
        let sharing = Sharing {
            why:
                "its account reads the manager's folder, so its tasks can read its secret and act as any user"
                    .to_owned(),
            is_refused: !self.is_accepted,
            ways: WAYS_SSH,
        };
        self.users.accounts().note(&self.platform, Some(sharing.clone()));
        let users = self.users.untrusted();
        match sharing.is_refused && !users.is_empty() {
            true => Err(refused_platform(&self.platform, &sharing, &users)),
            false => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use scheduler::engine::record::Record;
    use scheduler::time::Time;

    use super::*;
    use crate::{
        config::{Config, file::ManagerFile},
        security::{tokens::Tokens, users::Wanted},
    };

    fn check(folder: &Path, users: &Arc<Users>, is_accepted: bool) -> AccountCheck {
        let (platform, secret) = ("far".to_owned(), folder.join(SECRET_FILE));
        AccountCheck { users: users.clone(), platform, secret, is_accepted }
    }

    fn add_ann(users: &Users) {
        let wanted = Wanted { user: "ann".into(), is_operator: false, by: "olga".into(), expires_at: None };
        let token = users.draw(wanted).unwrap().token;
        users.note(&Record::TokenMade { token, at: Time(1) });
    }

    /// Long enough for whoever does not wait for its turn.
    const MOMENT: std::time::Duration = std::time::Duration::from_millis(200);

    #[tokio::test]
    async fn a_host_is_judged_when_no_user_is_being_added() {
        let folder = tempfile::tempdir().unwrap();
        let tokens = Tokens::open(folder.path()).unwrap();
        let users = tokens.users();
        let secret = std::fs::read(folder.path().join(SECRET_FILE)).unwrap();
        let found = Digest::of(digest::digest(&digest::SHA256, &secret).as_ref()).unwrap().to_string();
        let turn = users.accounts().turn().await;
        let check = check(folder.path(), users, false);
        let mut judged = Box::pin(check.judge(&found));
        assert!(tokio::time::timeout(MOMENT, &mut judged).await.is_err(), "it waits");
        add_ann(users);
        drop(turn);
        assert!(judged.await.unwrap_err().contains("(ann)"));
    }

    #[tokio::test]
    async fn a_platform_is_attached_when_no_user_is_being_added() {
        let folder = tempfile::tempdir().unwrap();
        let config = Config::new(folder.path().join("m"), "olga".into());
        let mut manager = crate::start(config.clone()).await.unwrap();
        let mut with_local = config;
        with_local.platforms = vec![(local(), Site::default())];
        let users = manager.users().clone();
        let turn = users.accounts().turn().await;
        let mut attached = Box::pin(manager.attach_new(&with_local));
        assert!(tokio::time::timeout(MOMENT, &mut attached).await.is_err(), "it waits");
        add_ann(&users);
        drop(turn);
        let refused = attached.await.unwrap_err();
        assert!(refused.contains("others than operators have access (ann)"), "{refused}");
        manager.close().await;
    }

    fn local() -> PlatformSpec {
        let text = "platforms: [{name: here, adapter: local, cores: 1}]";
        let file = ManagerFile::parse(text, Path::new("manager.yaml")).unwrap();
        let mut config = Config::new("/nowhere".into(), "olga".into());
        config.apply(&file, &scheduler::resources::Resources::cores(1)).unwrap();
        config.platforms.remove(0).0
    }

    #[tokio::test]
    async fn a_host_where_the_managers_secret_is_read_is_refused_as_soon_as_there_are_other_users() {
        let folder = tempfile::tempdir().unwrap();
        let tokens = Tokens::open(folder.path()).unwrap();
        let users = tokens.users();
        let secret = std::fs::read(folder.path().join(SECRET_FILE)).unwrap();
        let found = Digest::of(digest::digest(&digest::SHA256, &secret).as_ref()).unwrap();
        let found = format!("{found}  -\n");
        check(folder.path(), users, false).judge(&found).await.unwrap();
        assert!(users.accounts().all()["far"].is_refused, "so nobody may be added");
        add_ann(users);
        let refused = check(folder.path(), users, false).judge(&found).await.unwrap_err();
        assert!(refused.contains("(ann)") && refused.contains("let `ssh` name an account"), "{refused}");
        assert!(!refused.contains("run_as") && !refused.contains("--no-local"), "{refused}");
        check(folder.path(), users, true).judge(&found).await.unwrap();
        assert!(!users.accounts().all()["far"].is_refused);
        for other in ["", "sha256sum: no such file", &"0".repeat(64)] {
            check(folder.path(), users, false).judge(other).await.unwrap();
            assert!(users.accounts().all().is_empty());
        }
    }
}
