//! The command `cofferdam`.

fn main() -> std::process::ExitCode {
    cofferdam_cli::main()
}
