use rcgen::{CertificateParams, KeyPair, SanType};

use super::*;

fn proved(dns: &[&str], uris: &[&str]) -> Vec<String> {
    let key = KeyPair::generate().unwrap();
    let names: Vec<String> = dns.iter().map(|name| (*name).to_owned()).collect();
    let mut params = CertificateParams::new(names).unwrap();
    for uri in uris {
        params.subject_alt_names.push(SanType::URI((*uri).try_into().unwrap()));
    }
    domains(params.self_signed(&key).unwrap().der())
}

#[test]
fn sip_uris_count_before_dns_names() {
    assert_eq!(proved(&["a.example", "b.example"], &[]), ["a.example", "b.example"]);
    assert_eq!(proved(&["a.example"], &["sip:c.example", "SIP:d.example"]), ["c.example", "d.example"]);
}

#[test]
fn uris_of_people_and_of_other_schemes_prove_no_domain() {
    let others = ["sip:bob@c.example", "https://c.example", "sips:c.example", "sip:;lr", "sip:"];
    assert_eq!(proved(&["a.example"], &others), ["a.example"]);
    assert!(domains(&CertificateDer::from(vec![1, 2, 3])).is_empty());
    // Neither port nor parameters change whose it is (section 7.2).
    assert_eq!(
        proved(&["a.example"], &["sip:c.example:5061", "sip:d.example;lr"]),
        ["c.example", "d.example"]
    );
}

#[test]
fn domains_are_compared_without_case_and_wildcards_are_none() {
    assert!(is_domain("Example.COM", "example.com") && is_domain("example.com.", "example.com"));
    for (proved, wanted) in [
        ("*.example.com", "sip.example.com"),
        ("sip.example.com", "example.com"),
        ("*.example.com", "*.example.com"),
    ] {
        assert!(!is_domain(proved, wanted), "{proved} {wanted}");
    }
}
