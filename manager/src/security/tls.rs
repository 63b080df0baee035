//! The manager's own certificate: made once, kept in its folder, pinned by its SHA-256 in the access
//! file and in pilots' join documents. Nobody needs an authority, and nobody trusts one.

use std::{
    collections::BTreeSet,
    fs, io,
    net::IpAddr,
    path::{Path, PathBuf},
    sync::Arc,
};

use nix::unistd::Uid;
use protocol::files::private;
use ring::digest;
use rustls::{
    ServerConfig,
    pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, pem::PemObject},
};

use crate::security::private_file::write_private;

/// The certificate, for whoever is to trust it.
const CERTIFICATE_FILE: &str = "certificate.pem";
/// Its private key, of mode 0600. Written first: a certificate that is there has its key.
const KEY_FILE: &str = "certificate.key";

/// Why there is no TLS.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// The certificate's file cannot be read or written.
    #[error("failed to read or write {}: {source}", .path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The file holds something else.
    #[error("found no {wanted} in {}: {what}; remove certificate.pem to make a new one (its fingerprint changes)", .path.display())]
    Content {
        /// The file.
        path: PathBuf,
        /// `certificate` or `private key`.
        wanted: &'static str,
        /// What is there instead.
        what: String,
    },
    /// No certificate can be made.
    #[error("failed to make a certificate: {source}")]
    Make {
        /// Why.
        #[source]
        source: rcgen::Error,
    },
    /// Certificate and key do not belong together, or are of a kind that is not supported.
    #[error("failed to use the certificate in {}: {source}", .path.display())]
    Use {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: rustls::Error,
    },
}

/// What the API's listener needs, and what clients pin.
#[derive(Clone)]
pub struct Identity {
    /// For the listener.
    pub server: Arc<ServerConfig>,
    /// SHA-256 of the certificate in lower case hexadecimal.
    pub fingerprint: String,
}

impl Identity {
    /// The identity kept in `folder`, made when there is none. `listen_host` is one of its names.
    ///
    /// # Errors
    /// A file that cannot be read, written or used.
    pub fn open(folder: &Path, listen_host: IpAddr) -> Result<Identity, TlsError> {
        let (path, key_path) = (folder.join(CERTIFICATE_FILE), folder.join(KEY_FILE));
        if !path.exists() {
            let (certificate, key) = make_certificate(listen_host)?;
            for (path, pem) in [(&key_path, key), (&path, certificate)] {
                let file_error = |source| TlsError::File { path: path.clone(), source };
                write_private(path, pem.as_bytes()).map_err(file_error)?;
            }
        }
        let certificate: CertificateDer<'static> = read_pem(&path, "certificate")?;
        private::check_file(&key_path, Uid::effective().as_raw())
            .map_err(|source| TlsError::File { path: key_path.clone(), source })?;
        let key: PrivatePkcs8KeyDer<'static> = read_pem(&key_path, "private key")?;
        let fingerprint = fingerprint(&certificate);
        let server =
            server_config(certificate, key.into()).map_err(|source| TlsError::Use { path, source })?;
        Ok(Identity { server: Arc::new(server), fingerprint })
    }
}

fn read_pem<T: PemObject>(path: &Path, wanted: &'static str) -> Result<T, TlsError> {
    let pem = fs::read(path).map_err(|source| TlsError::File { path: path.to_owned(), source })?;
    T::from_pem_slice(&pem).map_err(|error| TlsError::Content {
        path: path.to_owned(),
        wanted,
        // The parser shows what it found as a list of bytes.
        what: error.to_string().split(": [").next().unwrap_or_default().to_owned(),
    })
}

/// SHA-256 of a certificate in lower case hexadecimal: what clients pin.
pub fn fingerprint(certificate: &CertificateDer<'_>) -> String {
    let sum = digest::digest(&digest::SHA256, certificate);
    sum.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A new certificate and its key, both PEM.
fn make_certificate(listen_host: IpAddr) -> Result<(String, String), TlsError> {
    let mut names: BTreeSet<String> =
        ["localhost", "127.0.0.1", "::1"].into_iter().map(str::to_owned).collect();
    names.insert(listen_host.to_string());
    names.extend(nix::unistd::gethostname().ok().and_then(|name| name.into_string().ok()));
    let make = || {
        let mut parameters = rcgen::CertificateParams::new(names.into_iter().collect::<Vec<_>>())?;
        parameters.distinguished_name.push(rcgen::DnType::CommonName, "pilotfish");
        let key = rcgen::KeyPair::generate()?;
        let certificate = parameters.self_signed(&key)?;
        Ok((certificate.pem(), key.serialize_pem()))
    };
    make().map_err(|source| TlsError::Make { source })
}

fn server_config(
    certificate: CertificateDer<'static>,
    key: PrivateKeyDer<'static>,
) -> Result<ServerConfig, rustls::Error> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}

#[cfg(test)]
mod tests {
    use std::{net::Ipv4Addr, os::unix::fs::PermissionsExt};

    use super::{Identity, TlsError};

    #[test]
    fn the_certificate_is_made_once_and_private() {
        let folder = tempfile::tempdir().unwrap();
        let first = Identity::open(folder.path(), Ipv4Addr::new(10, 0, 0, 7).into()).unwrap();
        let second = Identity::open(folder.path(), Ipv4Addr::LOCALHOST.into()).unwrap();
        assert_eq!(first.fingerprint, second.fingerprint);
        assert_eq!(first.fingerprint.len(), 64);
        let mode = std::fs::metadata(folder.path().join("certificate.key")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let elsewhere = tempfile::tempdir().unwrap();
        let other = Identity::open(elsewhere.path(), Ipv4Addr::LOCALHOST.into()).unwrap();
        assert_ne!(first.fingerprint, other.fingerprint);
    }

    #[test]
    fn a_damaged_certificate_is_refused_with_what_is_missing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("certificate.pem");
        std::fs::write(&path, "nothing of use").unwrap();
        let open = || Identity::open(folder.path(), Ipv4Addr::LOCALHOST.into()).err().unwrap();
        assert!(matches!(open(), TlsError::Content { wanted: "certificate", .. }));
        std::fs::remove_file(&path).unwrap();
        Identity::open(folder.path(), Ipv4Addr::LOCALHOST.into()).unwrap();
        let key = folder.path().join("certificate.key");
        std::fs::write(&key, "nothing of use").unwrap();
        assert!(matches!(open(), TlsError::Content { wanted: "private key", .. }));
        std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o644)).unwrap();
        assert!(matches!(open(), TlsError::File { path, .. } if path == key));
        std::fs::remove_file(folder.path().join("certificate.key")).unwrap();
        assert!(matches!(open(), TlsError::File { .. }));
    }
}
