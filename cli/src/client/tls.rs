//! TLS with one certificate: the one whose SHA-256 stands in the access file. Names, authorities and
//! dates say nothing about a certificate that the manager made itself, so they are not asked.

use std::sync::Arc;

use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error, SignatureScheme,
    client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature},
    pki_types::{CertificateDer, ServerName, UnixTime},
};

/// A configuration that trusts the certificate with this SHA-256 (in hexadecimal) and no other;
/// without one, no certificate at all.
pub fn pinned(certificate_sha256: Option<&str>) -> Result<ClientConfig, Error> {
    let provider = Arc::new(ring::default_provider());
    let expected = certificate_sha256.map(str::to_ascii_lowercase);
    let verifier = Pinned { expected, provider: provider.clone() };
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier))
        .with_no_client_auth();
    Ok(config)
}

#[derive(Debug)]
struct Pinned {
    expected: Option<String>,
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
    ) -> Result<ServerCertVerified, Error> {
        match &self.expected {
            Some(expected) if *expected == crate::hash::sha256_hex(end_entity) => {
                Ok(ServerCertVerified::assertion())
            }
            _ => Err(Error::InvalidCertificate(CertificateError::ApplicationVerificationFailure)),
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use rustls::client::danger::ServerCertVerifier;
    use rustls::crypto::ring;
    use rustls::pki_types::{CertificateDer, ServerName, UnixTime};

    use super::Pinned;

    fn accepts(expected: Option<&str>, certificate: &[u8]) -> bool {
        let provider = Arc::new(ring::default_provider());
        let pinned = Pinned { expected: expected.map(str::to_owned), provider };
        let name = ServerName::try_from("elsewhere.example").unwrap();
        let certificate = CertificateDer::from(certificate.to_vec());
        pinned
            .verify_server_cert(
                &certificate,
                &[],
                &name,
                &[],
                UnixTime::since_unix_epoch(std::time::Duration::ZERO),
            )
            .is_ok()
    }

    #[test]
    fn only_the_pinned_certificate_is_trusted_whatever_its_name_and_dates() {
        let pin = crate::hash::sha256_hex(b"ours");
        assert!(accepts(Some(&pin), b"ours"));
        assert!(!accepts(Some(&pin), b"theirs"));
        assert!(!accepts(None, b"ours"));
    }
}
