//! TLS to a cloud's services: the authorities that Pilotfish trusts and the certificate that it shows, as the cloud's entry
//! names them. In doubt it verifies, as openstacksdk does.

use std::{
    fmt,
    path::{Path, PathBuf},
};

use super::{CONNECT_LIMIT, TIME_LIMIT, clouds::Entry, words, yaml::Node};

/// Who we are for a cloud's services.
const USER_AGENT: &str = concat!("pilotfish/", env!("CARGO_PKG_VERSION"));
/// Certificates of a folder at most.
const N_FILES_MAX: usize = 10_000;

/// What a cloud's entry says of TLS.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Tls {
    /// Whether the cloud must prove who it is.
    pub(super) verifies: bool,
    /// Whose certificates are trusted, instead of the system's.
    pub(super) authorities: Option<Named>,
    /// By which certificate services know us.
    pub(super) certificate: Option<Named>,
    /// The certificate's key; `None`: it is in the same file.
    pub(super) key: Option<Named>,
}

/// A path and the field that names it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Named {
    pub(super) path: PathBuf,
    field: String,
}

impl fmt::Display for Named {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of `{}`", self.path.display(), self.field)
    }
}

impl Tls {
    /// What the entry says. `home`: what `~` stands for.
    pub(super) fn of(entry: &Entry, home: Option<&Path>) -> Tls {
        let called = |name: &str| match entry.is_of_variables {
            true => format!("OS_{}", name.to_uppercase()),
            false => name.to_owned(),
        };
        let file = |name: &str| {
            let path = expanded(&entry.text(name)?, home);
            Some(Named { path, field: called(name) })
        };
        let (verifies, named) = match entry.field("verify") {
            Some(Node::Bool(verifies)) => (*verifies, None),
            // Any text is a path, even `"no"`.
            Some(Node::Text(path)) if !path.is_empty() => {
                (true, Some(Named { path: path.into(), field: called("verify") }))
            }
            // For an empty text or list openstacksdk would not verify.
            Some(Node::Null | Node::Text(_) | Node::List(_) | Node::Map(_)) | None => (true, None),
        };
        let verifies = verifies && !entry.is_true("insecure");
        let certificate = file("cert");
        Tls {
            verifies,
            authorities: file("cacert").or(named).filter(|_| verifies),
            key: file("key").filter(|_| certificate.is_some()),
            certificate,
        }
    }
}

/// What is to be done where the certificate of a server is refused for that.
pub(super) fn way_out(words: &str) -> &'static str {
    match words.contains("CaUsedAsEndEntity") {
        true => {
            "; the server's own certificate is one of an authority (CA:TRUE, as `openssl req -x509` makes them), which \
             Pilotfish refuses whoever trusts it: give the server one that the authority signs, or one of CA:FALSE \
             (`openssl req -x509 -addext basicConstraints=critical,CA:FALSE …`)"
        }
        false => "",
    }
}

/// A path in which `~` may stand for the home.
fn expanded(path: &str, home: Option<&Path>) -> PathBuf {
    match (path.strip_prefix('~'), home) {
        (Some(""), Some(home)) => home.into(),
        (Some(rest), Some(home)) if rest.starts_with('/') => home.join(rest.trim_start_matches('/')),
        _ => path.into(),
    }
}

/// How services are reached.
pub(super) struct Ways {
    pub(super) http: reqwest::Client,
    /// Why nobody can be trusted, where this machine has no authorities.
    pub(super) distrust: Option<String>,
}

impl Ways {
    /// Those that an entry leads to; `is_secure`: Keystone is reached by TLS.
    ///
    /// # Errors
    /// What is wrong with a file that the entry names, or with the system's authorities. Nothing was sent.
    pub(super) async fn open(tls: &Tls, is_secure: bool) -> Result<Ways, String> {
        // Whoever was first has installed one; the same.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let own = match &tls.certificate {
            Some(certificate) => Some(identity(certificate, tls.key.as_ref()).await?),
            None => None,
        };
        let builder = || {
            let builder = reqwest::Client::builder()
                .connect_timeout(CONNECT_LIMIT)
                .timeout(TIME_LIMIT)
                .user_agent(USER_AGENT)
                // A token goes where the catalog says, and nowhere else.
                .redirect(reqwest::redirect::Policy::none())
                .danger_accept_invalid_certs(!tls.verifies);
            match &own {
                Some(own) => builder.identity(own.clone()),
                None => builder,
            }
        };
        let said = |error: reqwest::Error| {
            let of = tls.certificate.as_ref().map(|own| format!(" (with the certificate {own})"));
            format!("TLS cannot be set up{}: {}", of.unwrap_or_default(), words(&error))
        };
        if let Some(named) = &tls.authorities {
            // As for other clients: these instead of the system's, and where nobody speaks TLS they are not needed.
            let (trusted, distrust) = match certificates(named).await {
                Ok(trusted) => (trusted, None),
                Err(why) if !is_secure => (Vec::new(), Some(why)),
                Err(why) => return Err(why),
            };
            let http = builder().tls_certs_only(trusted).build().map_err(said)?;
            return Ok(Ways { http, distrust });
        }
        match builder().build() {
            Ok(http) => Ok(Ways { http, distrust: None }),
            Err(error) if !is_secure => {
                let http = builder().tls_certs_only([]).build().map_err(said)?;
                Ok(Ways { http, distrust: Some(said(error)) })
            }
            Err(error) => Err(said(error)),
        }
    }
}

/// The certificates of a file, or of a folder that `openssl rehash` has prepared.
async fn certificates(named: &Named) -> Result<Vec<reqwest::Certificate>, String> {
    let hint = match named.field.as_str() {
        "verify" => "; `verify` is `true`, `false` (without quotes) or such a file",
        "OS_VERIFY" => "; `OS_VERIFY` is such a file, and `OS_INSECURE=true` switches the check off",
        _ => "",
    };
    let failed = |error: std::io::Error| format!("failed to read the certificates {named}: {error}{hint}");
    let is_folder = tokio::fs::metadata(&named.path).await.map_err(failed)?.is_dir();
    let mut found = Vec::new();
    if is_folder {
        for path in hashed(&named.path).await.map_err(failed)? {
            // Of a file that is none, the others know nothing.
            let bytes = tokio::fs::read(&path).await.unwrap_or_default();
            found.extend(reqwest::Certificate::from_pem_bundle(&bytes).unwrap_or_default());
        }
    } else {
        let bytes = tokio::fs::read(&named.path).await.map_err(failed)?;
        found = reqwest::Certificate::from_pem_bundle(&bytes).unwrap_or_default();
    }
    match (found.is_empty(), is_folder) {
        (false, _) => Ok(found),
        (true, true) => Err(format!(
            "found no certificate in the folder {named} whose name is its hash; run `openssl rehash` on it, or name a file"
        )),
        (true, false) => Err(format!("found no certificate in {named}{hint}")),
    }
}

/// The files that OpenSSL would find: `9d66eef0.0`. Others of the folder are not trusted.
async fn hashed(folder: &Path) -> std::io::Result<Vec<PathBuf>> {
    let mut entries = tokio::fs::read_dir(folder).await?;
    let mut found = Vec::new();
    while let Some(entry) = entries.next_entry().await?
        && found.len() < N_FILES_MAX
    {
        let name = entry.file_name();
        let is_hashed = name.to_str().and_then(|name| name.split_once('.')).is_some_and(|(hash, number)| {
            let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
            is_number && hash.len() == 8 && hash.bytes().all(|byte| byte.is_ascii_hexdigit())
        });
        if is_hashed {
            found.push(entry.path());
        }
    }
    Ok(found)
}

/// The certificate by which services know us, with its key.
async fn identity(certificate: &Named, key: Option<&Named>) -> Result<reqwest::Identity, String> {
    let mut bytes = Vec::new();
    for named in [Some(certificate), key].into_iter().flatten() {
        let read = tokio::fs::read(&named.path).await;
        bytes.extend(read.map_err(|error| format!("failed to read {named}: {error}"))?);
        bytes.push(b'\n');
    }
    let key = key.unwrap_or(certificate);
    let text = String::from_utf8_lossy(&bytes);
    // Both forms of PEM say it so.
    if text.contains("ENCRYPTED") {
        return Err(format!(
            "found a key with a passphrase in {key}, which nobody can give to a manager; write one without (`openssl \
             pkey -in {0} -out NEW`)",
            key.path.display()
        ));
    }
    reqwest::Identity::from_pem(&bytes).map_err(|_| {
        format!(
            "found no certificate in {certificate} with a private key in {key}; both are PEM (`-----BEGIN …`)"
        )
    })
}

#[cfg(test)]
mod tests {
    use std::{fs, sync::Arc};

    use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
    use rustls::{
        RootCertStore, ServerConfig,
        pki_types::{CertificateDer, PrivateKeyDer},
        server::WebPkiClientVerifier,
    };
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        net::TcpListener,
    };
    use tokio_rustls::TlsAcceptor;

    use super::*;
    use crate::openstack::tests::credentials;

    /// An authority, and a certificate with its key, as PEM.
    struct Made {
        authority: String,
        certificate: String,
        key: String,
    }

    /// `is_authority`: the certificate is its own, and one of an authority.
    fn made(is_authority: bool) -> Made {
        let key = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::new(["127.0.0.1".to_owned()]).expect("a name");
        if is_authority {
            params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
            let own = params.self_signed(&key).expect("a certificate").pem();
            return Made { authority: own.clone(), certificate: own, key: key.serialize_pem() };
        }
        let of_authority = KeyPair::generate().expect("a key");
        let mut authority = CertificateParams::new(["authority".to_owned()]).expect("a name");
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let whole = authority.self_signed(&of_authority).expect("a certificate").pem();
        let issuer = Issuer::new(authority, of_authority);
        let certificate = params.signed_by(&key, &issuer).expect("a certificate").pem();
        Made { authority: whole, certificate, key: key.serialize_pem() }
    }

    fn der(pem: &str) -> CertificateDer<'static> {
        use rustls::pki_types::pem::PemObject;
        CertificateDer::from_pem_slice(pem.as_bytes()).expect("a certificate")
    }

    /// A server that answers once to each who comes in; `guests`: whose certificates it wants to see. Its URL.
    async fn server(own: &Made, guests: Option<&Made>) -> String {
        use rustls::pki_types::pem::PemObject;
        let _ = rustls::crypto::ring::default_provider().install_default();
        let config = match guests {
            None => ServerConfig::builder().with_no_client_auth(),
            Some(guests) => {
                let mut roots = RootCertStore::empty();
                roots.add(der(&guests.authority)).expect("an authority");
                let verifier = WebPkiClientVerifier::builder(roots.into()).build().expect("a verifier");
                ServerConfig::builder().with_client_cert_verifier(verifier)
            }
        };
        let key = PrivateKeyDer::from_pem_slice(own.key.as_bytes()).expect("a key");
        let config = config.with_single_cert(vec![der(&own.certificate)], key).expect("they fit");
        let (acceptor, listener) =
            (TlsAcceptor::from(Arc::new(config)), TcpListener::bind(("127.0.0.1", 0)).await.expect("a port"));
        let url = format!("https://{}/", listener.local_addr().expect("an address"));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                // Whoever is not let in, or hangs up, does so.
                let Ok(mut stream) = acceptor.accept(stream).await else { continue };
                let mut request = [0; 4096];
                if stream.read(&mut request).await.is_ok() {
                    let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
                    let _ = stream.write_all(answer).await;
                    let _ = stream.shutdown().await;
                }
            }
        });
        url
    }

    /// What comes of a request with these fields of a cloud.
    async fn asked(url: &str, fields: &str) -> Result<u16, String> {
        let http = Ways::open(&credentials(fields).tls, true).await?.http;
        let answer = http.get(url).send().await.map_err(|error| words(&error))?;
        Ok(answer.status().as_u16())
    }

    #[tokio::test]
    async fn only_false_switches_checks_off_and_any_text_is_a_file_of_authorities() {
        let folder = tempfile::tempdir().expect("a folder");
        let own = made(false);
        let url = server(&own, None).await;
        let file = |name: &str, text: &str| {
            let path = folder.path().join(name);
            fs::write(&path, text).expect("it is written");
            path.display().to_string()
        };
        let (right, wrong) = (file("right.pem", &own.authority), file("wrong.pem", &made(false).authority));
        for fields in [
            format!("cacert: {right}"),
            format!("verify: {right}"),
            format!("verify: {wrong}, cacert: {right}"),
            "verify: false".to_owned(),
            "verify: no".to_owned(),
            // Nobody looks at it.
            "verify: false, cacert: /nowhere.pem".to_owned(),
            "insecure: true".to_owned(),
            "insecure: \"True\"".to_owned(),
        ] {
            assert_eq!(asked(&url, &fields).await, Ok(200), "{fields}");
        }
        for fields in [format!("cacert: {wrong}"), format!("verify: {wrong}")] {
            let why = asked(&url, &fields).await.expect_err(&fields);
            assert!(why.contains("invalid peer certificate"), "{fields}: {why}");
        }
        for written in ["\"no\"", "\"false\"", "\"False\"", "\"off\"", "\"0\"", "0", "n", "\"true\""] {
            let why = asked(&url, &format!("verify: {written}")).await.expect_err(written);
            let path = written.trim_matches('"');
            let expected = format!("failed to read the certificates {path} of `verify`: No such file");
            assert!(why.contains(&expected) && why.contains("`false` (without quotes)"), "{written}: {why}");
        }
        // openstacksdk would verify for `~` alone.
        for written in ["~", "\"\"", "[]", "{}"] {
            let tls = credentials(&format!("verify: {written}")).tls;
            assert!(tls.verifies && tls.authorities.is_none(), "{written}");
        }
    }

    #[tokio::test]
    async fn authorities_of_a_folder_are_those_whose_names_are_hashes() {
        let folder = tempfile::tempdir().expect("a folder");
        let own = made(false);
        let url = server(&own, None).await;
        let fields = format!("cacert: {}", folder.path().display());
        let write =
            |name: &str, text: &str| fs::write(folder.path().join(name), text).expect("it is written");
        for name in ["ca.pem", "0a1b2c3d.r0", "0a1b2c3d", "0a1b2c3.0"] {
            write(name, &own.authority);
        }
        let why = asked(&url, &fields).await.expect_err("no hash");
        assert!(why.contains("of `cacert` whose name is its hash; run `openssl rehash`"), "{why}");
        write("ffffffff.0", &made(false).authority);
        let why = asked(&url, &fields).await.expect_err("another one");
        assert!(why.contains("invalid peer certificate"), "{why}");
        write("0a1b2c3d.0", &own.authority);
        write("0a1b2c3d.1", "no certificate");
        assert_eq!(asked(&url, &fields).await, Ok(200));
    }

    #[tokio::test]
    async fn services_know_us_by_a_certificate_and_its_key() {
        let folder = tempfile::tempdir().expect("a folder");
        let (own, guest) = (made(false), made(false));
        let url = server(&own, Some(&guest)).await;
        let file = |name: &str, text: &str| {
            let path = folder.path().join(name);
            fs::write(&path, text).expect("it is written");
            path.display().to_string()
        };
        let authority = file("ca.pem", &own.authority);
        let with = |more: &str| format!("cacert: {authority}, {more}");
        let (certificate, key) = (file("me.pem", &guest.certificate), file("me.key", &guest.key));
        let both = file("both.pem", &format!("{}{}", guest.key, guest.certificate));
        assert_eq!(asked(&url, &with(&format!("cert: {certificate}, key: {key}"))).await, Ok(200));
        assert_eq!(asked(&url, &with(&format!("cert: {both}"))).await, Ok(200));
        assert!(asked(&url, &with("region_name: x")).await.is_err(), "it wants a certificate");
        // Without a certificate openstacksdk does not look at the key.
        assert!(asked(&url, &with("key: /nowhere")).await.is_err_and(|why| !why.contains("/nowhere")));
        let locked = guest.key.replace("PRIVATE KEY", "ENCRYPTED PRIVATE KEY");
        let locked = file("locked.key", &locked);
        for (fields, expected) in [
            ("cert: /nowhere.pem".to_owned(), "failed to read /nowhere.pem of `cert`: No such file"),
            (format!("cert: {certificate}, key: /nowhere.key"), "failed to read /nowhere.key of `key`"),
            (format!("cert: {certificate}"), "with a private key in"),
            (format!("cert: {key}, key: {key}"), "found no certificate in"),
            (format!("cert: {certificate}, key: {locked}"), "found a key with a passphrase in"),
        ] {
            let why = asked(&url, &with(&fields)).await.expect_err(&fields);
            assert!(why.contains(expected), "{fields}: {why}");
        }
    }

    #[tokio::test]
    async fn a_server_that_shows_the_certificate_of_an_authority_is_refused_with_a_way_out() {
        let folder = tempfile::tempdir().expect("a folder");
        let own = made(true);
        let url = server(&own, None).await;
        let path = folder.path().join("ca.pem");
        fs::write(&path, &own.authority).expect("it is written");
        let why = asked(&url, &format!("cacert: {}", path.display())).await.expect_err("CA:TRUE");
        assert!(why.contains("give the server one that the authority signs, or one of CA:FALSE"), "{why}");
    }
}
