use super::*;
use crate::files::testing::Folder;

fn url(text: &str) -> Url {
    Url::parse(text).unwrap()
}

#[test]
fn names_are_single_parts_of_paths() {
    let long = format!("http://a/{}.png", "x".repeat(300));
    let cases = [
        ("http://a", "index.html", "index.html"),
        ("http+sctp://a/b/", "index.html", "index.html"),
        ("http://a/b/..", "index.html", "index.html"),
        ("http+sctp://a/b/%2e%2e", "index.html", "index.html"),
        ("http://a/%2e%2e%2fb", "%2e%2e%2fb", "%2e%2e%2fb"),
        ("http+sctp://a/..\\..\\b", ".._.._b", "_._.._b"),
        ("http://a/b/.profile", ".profile", "_profile"),
        ("http://a/-rf?name=/etc/passwd#../b", "-rf", "_rf"),
        ("http://a/b\0c", "b%00c", "b%00c"),
    ];
    for (text, by_user, by_page) in cases {
        assert_eq!(name(&url(text), false), by_user, "{text}");
        assert_eq!(name(&url(text), true), by_page, "{text}");
    }
    let short = name(&url(&long), true);
    assert_eq!((short.len(), short.ends_with("x.png")), (NAME_MAX, true));
}

#[test]
fn one_name_is_given_once() {
    let folder = Folder::new("get-names");
    let mut names = Names::default();
    let urls = ["http://a/n?1", "http://a/n?2", "http://b/n", "http://a/n.1"].map(url);
    let files: Vec<Output> =
        urls.iter().map(|url| names.file(folder.path(), url, Existing::Opened)).collect();
    let wanted = ["n", "n.1", "n.2", "n.1.1"].map(|name| folder.path().join(name));
    assert_eq!(files.iter().map(|file| file.file().unwrap()).collect::<Vec<_>>(), wanted);
}

#[test]
fn pages_name_only_new_files() {
    let folder = Folder::new("get-new");
    let at = |name: &str| folder.path().join(name);
    std::fs::write(at("here"), "mine").unwrap();
    std::fs::write(at("target"), "mine").unwrap();
    std::os::unix::fs::symlink(at("target"), at("link")).unwrap();
    std::os::unix::fs::symlink(at("nowhere"), at("dangling")).unwrap();
    let mut names = Names::default();
    for name in ["here", "link", "dangling"] {
        let output = names.file(folder.path(), &url(&format!("http://a/{name}")), Existing::Kept);
        assert_eq!(output.file().unwrap(), at(&format!("{name}.1")));
    }
    // Something may appear between the choice of the name and its use.
    for name in ["here", "link", "dangling"] {
        let output = Output::File { path: at(name), existing: Existing::Kept };
        assert!(Writer::open(&output, 0, false).is_err(), "{name}");
    }
    let link = Output::File { path: at("link"), existing: Existing::Replaced };
    assert!(Writer::open(&link, 0, false).is_err() && Writer::open(&link, 4, false).is_err());
    assert_eq!(std::fs::read_to_string(at("target")).unwrap(), "mine");
    assert!(!at("nowhere").exists());
    let here = Output::File { path: at("here"), existing: Existing::Replaced };
    Writer::open(&here, 0, false).unwrap().write(b"new").unwrap();
    assert_eq!(std::fs::read_to_string(at("here")).unwrap(), "new");
}

#[test]
fn pipes_are_not_waited_for() {
    let folder = Folder::new("get-pipe");
    let pipe = folder.path().join("pipe");
    rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR).unwrap();
    assert!(Writer::open(&Output::File { path: pipe, existing: Existing::Replaced }, 0, false).is_err());
}
