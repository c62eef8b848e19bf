//! The tools, as clients of the protocol see them.

use std::sync::Arc;
use std::time::Duration;

use rmcp::ServerHandler;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CustomRequest, CustomResult, ErrorCode, ErrorData,
    Implementation, ListToolsResult, PaginatedRequestParams, ServerCapabilities, ServerConfig,
    Tool,
};
use rmcp::service::{RequestContext, RoleServer};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::failure::Failure;
use super::server::Asked;
use super::serves::Serves;
use super::tool::{Entry, entry};
use super::turns::Turns;
use super::{
    create, diff, edit, exec, glob, grep, kill, list, ls, output, ports, read, too_long, write,
};

/// What every client tells its model.
const INSTRUCTIONS: &str = "\
Work in sandboxes: make one with `sandbox-create`, then read, change and run everything by the `sandbox-…` tools, and by no other tool \
for files or commands. A sandbox has the files of the repository's last commit. Each change is a commit on the branch that \
`sandbox-create` names; do not run git to commit, push or switch branches. When you are done, tell the person you work for the name of \
the sandbox: they see your work with `cofferdam diff NAME`, take it with `cofferdam merge NAME`, and end the sandbox with \
`cofferdam delete NAME`.";

/// How long calls that are under way may take to their end when the server ends.
const LAST: Duration = Duration::from_secs(30);

/// Cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct Handler {
    serves: Serves,
    tools: Arc<[Entry]>,
    turns: Turns,
    /// Those that are under way, and what tells them to end.
    calls: TaskTracker,
    stop: CancellationToken,
}

impl Handler {
    pub(super) fn new(serves: Serves) -> Self {
        let mut tools = [
            entry::<create::Create>(),
            entry::<list::List>(),
            entry::<exec::Exec>(),
            entry::<output::Output>(),
            entry::<kill::Kill>(),
            entry::<read::Read>(),
            entry::<write::Write>(),
            entry::<edit::Edit>(),
            entry::<ls::Ls>(),
            entry::<glob::Glob>(),
            entry::<grep::Grep>(),
            entry::<diff::Diff>(),
            entry::<ports::Ports>(),
        ];
        for Entry { tool, .. } in &mut tools {
            tool.input_schema = Arc::new(serves.with_name(&tool.input_schema));
        }
        Self {
            serves,
            tools: Arc::new(tools),
            turns: Turns::new(),
            calls: TaskTracker::new(),
            stop: CancellationToken::new(),
        }
    }

    /// Whose sandboxes the tools are about, in words.
    pub(super) fn whose(&self) -> String {
        self.serves.to_string()
    }

    /// Tells the calls that are under way to end, and waits for that: 30 s at most.
    pub(super) async fn end(&self) {
        self.stop.cancel();
        self.calls.close();
        let _ = tokio::time::timeout(LAST, self.calls.wait()).await;
    }
}

impl ServerHandler for Handler {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder().enable_tools().build();
        let name = Implementation::new("cofferdam", env!("CARGO_PKG_VERSION"));
        ServerConfig::new(capabilities)
            .with_server_info(name)
            .with_instructions(INSTRUCTIONS)
    }

    async fn list_tools(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let tools = self.tools.iter().map(|entry| entry.tool.clone());
        Ok(ListToolsResult::with_all_items(tools.collect()))
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        let found = self.tools.iter().find(|entry| entry.tool.name == name);
        found.map(|entry| entry.tool.clone())
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let tools = &self.tools;
        let Some(entry) = tools.iter().find(|entry| entry.tool.name == request.name) else {
            let names = tools.iter().map(|entry| &*entry.tool.name);
            let names: Vec<&str> = names.collect();
            let what = format!(
                "there is no tool `{}`; those that there are: {}",
                request.name,
                names.join(", ")
            );
            return Err(ErrorData::invalid_params(what, None));
        };
        let mut arguments = request.arguments.unwrap_or_default();
        let cancel = self.stop.child_token();
        let asked = Asked::by(&context, cancel.clone(), self.turns.clone());
        let (serves, name, call) = (self.serves.clone(), request.name, entry.call);
        let mut call = Box::pin(async move {
            let server = serves.of(&mut arguments).await?;
            let follows = asked.follower();
            let call = call(server, arguments, asked);
            follows.patiently(&name, call).await
        });
        let unwanted = context.ct.clone();
        let call = async move {
            tokio::select! {
                answer = &mut call => answer,
                // It is told, and comes to its end by itself.
                () = unwanted.cancelled() => {
                    cancel.cancel();
                    call.await
                }
            }
        };
        // Whatever becomes of whoever asks.
        let answer = tokio::spawn(self.calls.track_future(call)).await;
        let answer = answer.map_err(|error| ErrorData::internal_error(error.to_string(), None))?;
        Ok(answer.unwrap_or_else(Failure::into_result).into())
    }

    async fn on_custom_request(
        &self,
        request: CustomRequest,
        _context: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        if request.method == too_long::METHOD {
            return Err(ErrorData::invalid_request(too_long::WHY, None));
        }
        let code = ErrorCode::METHOD_NOT_FOUND;
        Err(ErrorData::new(code, request.method, None))
    }
}
