//! Certificates issued by a test authority.

use std::path::PathBuf;
use std::time::Duration;

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair, SanType, date_time_ymd};
use strandline_tls::{ClientTls, OwnFiles};

/// Certificates and a configuration in a folder, which is removed when this value is dropped.
pub struct Folder(pub PathBuf, Issuer<'static, KeyPair>);

impl Folder {
    pub fn new(test: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("strandline-sip-tls-{test}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let ca_key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        std::fs::write(folder.join("ca.pem"), params.self_signed(&ca_key).unwrap().pem()).unwrap();
        let folder = Self(folder, Issuer::new(params, ca_key));
        for (file, subject) in
            [("server", "127.0.0.1"), ("trunk", "trunk.example.net"), ("other", "other.example.net")]
        {
            folder.certificate(file, &[subject], &[]);
        }
        folder
    }

    /// Creates a certificate for these names or addresses, and URIs.
    pub fn certificate(&self, file: &str, names: &[&str], uris: &[&str]) {
        self.make(file, names, uris, None);
    }

    /// Makes a certificate that is valid between two times, in seconds since 1970.
    pub fn certificate_for(&self, file: &str, names: &[&str], (from, until): (u64, u64)) {
        self.make(file, names, &[], Some((from, until)));
    }

    fn make(&self, file: &str, names: &[&str], uris: &[&str], time: Option<(u64, u64)>) {
        let key = KeyPair::generate().unwrap();
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut params = CertificateParams::new(names).unwrap();
        if let Some((from, until)) = time {
            let at = |secs| date_time_ymd(1970, 1, 1) + Duration::from_secs(secs);
            (params.not_before, params.not_after) = (at(from), at(until));
        }
        params.subject_alt_names.extend(uris.iter().map(|uri| SanType::URI((*uri).try_into().unwrap())));
        let signed = params.signed_by(&key, &self.1).unwrap();
        std::fs::write(self.0.join(format!("{file}.pem")), signed.pem()).unwrap();
        std::fs::write(self.0.join(format!("{file}.key")), key.serialize_pem()).unwrap();
    }

    pub fn own(&self, name: &str) -> OwnFiles {
        OwnFiles { certificate: self.0.join(format!("{name}.pem")), key: self.0.join(format!("{name}.key")) }
    }

    pub fn client(&self, own: Option<&str>) -> ClientTls {
        ClientTls::new(&self.0.join("ca.pem"), own.map(|name| self.own(name)).as_ref()).unwrap()
    }

    pub fn config(&self, more: &str) -> PathBuf {
        let (path, folder) = (self.0.join("sip.toml"), self.0.display());
        let text = format!(
            "[[listen]]\nprotocol = \"tls\"\naddress = \"127.0.0.1:0\"\n[tls]\n\
             certificate = \"{folder}/server.pem\"\nkey = \"{folder}/server.key\"\nca = \"{folder}/ca.pem\"\n{more}"
        );
        std::fs::write(&path, text).unwrap();
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
