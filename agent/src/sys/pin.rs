//! TLS with one accepted certificate: its SHA-256 came with the join document or the access file.

use std::{error::Error, io, sync::Arc};

use rustls::{
    DigitallySignedStruct, SignatureScheme,
    client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature},
    pki_types::{CertificateDer, ServerName, UnixTime},
};

/// Parses the hexadecimal digits of a SHA-256, with or without colons; `None` for other texts.
pub fn fingerprint(hex: &str) -> Option<[u8; 32]> {
    let digits: Vec<u32> =
        hex.chars().filter(|c| *c != ':').map(|c| c.to_digit(16)).collect::<Option<_>>()?;
    let bytes: Vec<u8> = digits.chunks_exact(2).map(|pair| (pair[0] << 4 | pair[1]) as u8).collect();
    if digits.len() == 64 { bytes.try_into().ok() } else { None }
}

/// Returns a configuration that accepts the certificate with this SHA-256 and no other. The manager made the
/// certificate itself, so names, authorities and dates prove nothing and are not checked.
pub fn tls_config(pin: [u8; 32]) -> rustls::ClientConfig {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let verifier = Arc::new(Pinned { pin, provider: Arc::clone(&provider) });
    let builder = rustls::ClientConfig::builder_with_provider(provider);
    // Ring has suites for both of these versions, so this cannot fail.
    let builder = match builder.with_protocol_versions(&[&rustls::version::TLS13, &rustls::version::TLS12]) {
        Ok(builder) => builder,
        Err(error) => unreachable!("ring supports TLS 1.2 and 1.3: {error}"),
    };
    builder.dangerous().with_custom_certificate_verifier(verifier).with_no_client_auth()
}

/// Accepts one certificate and no other.
#[derive(Debug)]
struct Pinned {
    pin: [u8; 32],
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Pinned {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let found = ring::digest::digest(&ring::digest::SHA256, end_entity);
        if found.as_ref() == self.pin {
            return Ok(ServerCertVerified::assertion());
        }
        Err(rustls::Error::General(format!(
            "it shows the certificate {} and not {}: somebody else's, or renewed",
            hex(found.as_ref()),
            hex(&self.pin)
        )))
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signed, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signed, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

/// Returns the certificates that were found and expected, if an error comes from another certificate than the
/// pinned one.
pub fn mismatch(error: &(dyn Error + 'static)) -> Option<String> {
    let mut cause = Some(error);
    while let Some(error) = cause {
        if let Some(rustls::Error::General(what)) = error.downcast_ref() {
            return Some(what.clone());
        }
        // The source of an `io::Error` is its content's source, so the content itself would be skipped.
        let content = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        cause = match content {
            Some(content) => Some(content),
            None => error.source(),
        };
    }
    None
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().take(8).map(|byte| format!("{byte:02x}")).collect::<String>() + "…"
}

#[cfg(test)]
mod tests {
    use super::*;

    fn accepts(pin: [u8; 32], certificate: &[u8]) -> bool {
        let pinned = Pinned { pin, provider: Arc::new(rustls::crypto::ring::default_provider()) };
        let name = ServerName::try_from("elsewhere.example").unwrap();
        let certificate = CertificateDer::from(certificate.to_vec());
        let long_ago = UnixTime::since_unix_epoch(std::time::Duration::ZERO);
        pinned.verify_server_cert(&certificate, &[], &name, &[], long_ago).is_ok()
    }

    #[test]
    fn only_the_pinned_certificate_is_trusted_whatever_its_name_and_dates() {
        let digest = ring::digest::digest(&ring::digest::SHA256, b"ours");
        let pin: [u8; 32] = digest.as_ref().try_into().unwrap();
        assert!(accepts(pin, b"ours"));
        assert!(!accepts(pin, b"theirs"));
        assert!(!accepts([0; 32], b"ours"));
    }

    #[test]
    fn a_fingerprint_is_64_digits_with_or_without_colons() {
        assert_eq!(fingerprint(&"0f".repeat(32)), Some([15; 32]));
        assert_eq!(fingerprint(&["0F"; 32].join(":")), Some([15; 32]));
        assert_eq!((fingerprint("0f"), fingerprint(&"xy".repeat(32))), (None, None));
    }
}
