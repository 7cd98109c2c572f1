use super::*;

fn at(port: u16) -> SocketAddr {
    SocketAddr::from(([192, 0, 2, 1], port))
}

fn domains(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

#[test]
fn only_domain_owners_get_their_requests() {
    let mut aliases = Aliases::default();
    aliases.alias(1, at(5061));
    assert!(aliases.is_empty(), "it has shown no certificate");
    aliases.prove(1, domains(&["example.net"]));
    assert_eq!(aliases.find(at(5061), "example.net"), None, "it has not asked for it");
    aliases.alias(1, at(5061));
    assert_eq!(aliases.find(at(5061), "Example.NET"), Some(1));
    assert_eq!(aliases.find(at(5061), "example.com"), None);
    assert_eq!(aliases.find(at(5062), "example.net"), None);
}

#[test]
fn virtual_servers_share_an_address_by_connection() {
    let mut aliases = Aliases::default();
    for (connection, name) in [(1, "example.net"), (2, "example.com"), (3, "example.net")] {
        aliases.prove(connection, domains(&[name]));
        aliases.alias(connection, at(5061));
        aliases.alias(connection, at(5061));
    }
    assert_eq!(aliases.find(at(5061), "example.com"), Some(2));
    assert_eq!(aliases.find(at(5061), "example.net"), Some(3));
    aliases.remove(3);
    assert_eq!(aliases.find(at(5061), "example.net"), Some(1));
}

#[test]
fn connection_has_one_alias_until_it_closes() {
    let mut aliases = Aliases::default();
    aliases.prove(1, domains(&["example.net"]));
    for port in 5061..6061 {
        aliases.alias(1, at(port));
    }
    assert_eq!(aliases.by_address.len(), 1);
    assert_eq!(aliases.find(at(6060), "example.net"), Some(1));
    aliases.remove(1);
    aliases.remove(1);
    assert!(aliases.is_empty() && aliases.neighbours.is_empty());
}
