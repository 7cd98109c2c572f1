//! Pages, and what they load.

use super::*;

#[tokio::test]
async fn style_sheets_are_searched_to_their_end() {
    let server = Running::start(&[]).await;
    let site = server.folder().join("site");
    fs::create_dir(site.join("css")).unwrap();
    for (name, text) in [
        (
            "page.html",
            "<base href=/css/><link rel=stylesheet href=a.css><img srcset='../1.png 1x, ../2.png 2x'>",
        ),
        ("css/a.css", "@import 'b.css'; body { background: url(../3.png) }"),
        // They import each other, and the page itself.
        ("css/b.css", "@import url(a.css); @import '/page.html'; p { background: url('4.png') }"),
        ("1.png", "1"),
        ("2.png", "2"),
        ("3.png", "3"),
        ("css/4.png", "4"),
    ] {
        fs::write(site.join(name), text).unwrap();
    }
    let directory = server.folder().join("page");
    let page = url(&server, "http+sctp", "page.html");
    assert_eq!(get(&server, &["--page", "--create-dirs", "-d", directory.to_str().unwrap(), &page]).await, 0);
    let mut found: Vec<_> = fs::read_dir(&directory)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    found.sort();
    assert_eq!(found, ["1.png", "2.png", "3.png", "4.png", "a.css", "b.css", "page.html"]);
}

#[tokio::test]
async fn redirections_move_what_pages_name() {
    const TO: &str =
        "HTTP/1.1 302 Found\r\nLocation: /dir/page\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
    const PAGE: &str = "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 15\r\nConnection: close\r\n\r\n<img src=i.png>";
    const IMAGE: &str = "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nConnection: close\r\n\r\ni";
    let folder = Folder::new("get-page-redirected");
    let (port, requests) = scripted(&[TO, PAGE, IMAGE]);
    let page = format!("http://127.0.0.1:{port}/");
    let arguments = ["get", "--quiet", "--page", "-d", folder.path().to_str().unwrap(), &page];
    assert_eq!(fetch_all(&Program::try_parse_from(arguments).unwrap().args).await.unwrap(), 0);
    let requests = requests.join().unwrap();
    assert!(requests[2].starts_with("get /dir/i.png "), "{}", requests[2]);
}

#[tokio::test]
async fn pages_come_over_tls() {
    let folder = Folder::new("get-page-tls");
    let (certificate, key) = certificate(&folder);
    let server = Running::start(&["--certificate", &certificate, "--key", &key]).await;
    let site = server.folder().join("site");
    let secure = format!("https://localhost:{}", server.tcp_port());
    fs::write(site.join("page.html"), format!("<img src=1.png><img src='{secure}/2.png'>")).unwrap();
    for name in ["1.png", "2.png"] {
        fs::write(site.join(name), name).unwrap();
    }
    let directory = server.folder().join("page");
    let page = format!("{secure}/page.html");
    let own = ["--page", "--create-dirs", "-d", directory.to_str().unwrap(), "--cacert", &certificate, &page];
    assert_eq!(get(&server, &own).await, 0);
    for name in ["1.png", "2.png"] {
        assert_eq!(fs::read_to_string(directory.join(name)).unwrap(), name);
    }
    assert_eq!(server.log().lines().count(), 3);
}

#[tokio::test]
async fn files_other_than_pages_name_nothing() {
    let server = Running::start(&[]).await;
    let site = server.folder().join("site");
    fs::write(site.join("text.txt"), "<img src=missing.png>").unwrap();
    let directory = server.folder().join("d");
    let page = url(&server, "http+sctp", "text.txt");
    assert_eq!(get(&server, &["--page", "--create-dirs", "-d", directory.to_str().unwrap(), &page]).await, 0);
}
