#pragma once
#include "base/buf.h"
#include "base/list.h"
#include "base/map.h"
#include "base/rand.h"
#include "loop/steps.h"
#include "loop/workers.h"
#include "task/task.h"

/*
 * Internal to tasks.
 */
struct atoll_task_command;
struct atoll_git_request;
struct atoll_git_result;

struct atoll_task {
    struct atoll_tasks *tasks;
    char id[ATOLL_ID_LEN + 1];
    char tenant[65];
    enum atoll_task_state state;
    uint32_t attempt;
    json_t *request; /* owned */
    json_t *facts;   /* owned */
    struct atoll_error error;
    int64_t created_unix_ms, started_unix_ms, ended_unix_ms;

    struct atoll_steps steps;   /* in progress while state is RUNNING */
    size_t at;                  /* index of the step that runs or failed; count: none */
    struct atoll_list queue;    /* node, while WAITING */
    struct atoll_timer timer;   /* of the step: a retry, or the wait for a source */
    struct atoll_timer pruning; /* after its end */
    struct atoll_timer step_timer, budget_timer;
    struct atoll_task_program *program; /* of the host, that runs; or NULL */
    unsigned tries;                     /* of the step */
    struct atoll_task_command *command; /* that runs; or NULL */
    struct atoll_task_apart *apart;     /* push_apart.c: while it works; or NULL */
    struct atoll_task_carry *carry;     /* carry.c: a file that is being copied; or NULL */
    bool wants_source;
    bool skipped;          /* the step has nothing to do */
    bool took_in;          /* push.c: commits of the server, by this try */
    bool emptied;          /* repository.c: the directory of the clone, by this try */
    struct atoll_buf said; /* stdout of an agent without rules for its output */
    /* memory.c */
    struct atoll_buf read;
    char *memory_text; /* owned; while it is written */
    char *mcp_text;    /* mcp_servers.c: likewise */
    /* oauth_task.c: after which server it waits for the token, and then */
    size_t oauth_at;
    void (*oauth_next)(struct atoll_task *task);
    void (*next)(struct atoll_task *task);
    void (*layer_failed)(struct atoll_task *task, const struct atoll_error *error);

    int log_fd;
    uint64_t log_bytes, output_bytes;
    bool output_is_cut;
    struct atoll_list watches;
    struct atoll_timer telling;
};

struct atoll_tasks {
    struct atoll_tasks_config config;
    struct atoll_map by_id;    /* of struct atoll_task, owned */
    struct atoll_list waiting; /* by atoll_task.queue, oldest first */
    bool draining, admitting;
    struct atoll_workers *workers;            /* for programs of the operator; NULL: none yet */
    int dir_fd;                               /* of the logs */
    void (*ended)(void *arg, const char *id); /* or NULL */
    void *ended_arg;
    struct atoll_swarms *swarms; /* borrowed; NULL: none yet */
    struct atoll_oauth *oauth;
};

/* An agent of the registry. */
struct atoll_task_agent {
    const char *name;
    const json_t *object;
};

/* tasks.c */
struct atoll_task *atoll_task_get(struct atoll_tasks *tasks, const char *tenant, const char *id,
                                  struct atoll_error *err);
int atoll_task_store(struct atoll_task *task, struct atoll_error *err) ATOLL_MUST_CHECK;
/* Texts and objects of the request; NULL: not given. */
const char *atoll_task_text(const struct atoll_task *task, const char *name);
const json_t *atoll_task_object(const struct atoll_task *task, const char *name);
/* Facts: results of steps. */
const char *atoll_task_fact(const struct atoll_task *task, const char *name);   /* "": none */
void atoll_task_note(struct atoll_task *task, const char *name, json_t *value); /* takes it */
/* The task has ended, or its steps could not be started. */
void atoll_task_ended(struct atoll_task *task, const struct atoll_error *error);

/* Whether the task can go on in its sandbox. */
bool atoll_task_has_sandbox(const struct atoll_task *task);
/* Lets the task begin anew, in another sandbox: another attempt, which is not stored yet. */
void atoll_task_anew(struct atoll_task *task);

/* change.c: what a retry changes */
/* FAILED_PRECONDITION: it cannot be changed, as nothing else is. */
int atoll_task_change(struct atoll_task *task, const struct atoll_task_change *change,
                      struct atoll_error *err) ATOLL_MUST_CHECK;
/* Sets the new limits in the sandbox that the task goes on in, if there are some. done: with the task. */
void atoll_task_set_limits(struct atoll_task *task, atoll_done_fn *done);

/* stopped.c: the daemon's own stop */
/* It is about to end the sandboxes. Until the end of the process the task does not end with an error. */
void atoll_task_note_stop(struct atoll_task *task);
void atoll_task_forget_stop(struct atoll_task *task);
bool atoll_task_is_stopped(const struct atoll_task *task);
/* In the next daemon, before the steps begin: the task begins anew if its sandbox has ended. ABORTED: a client has
 * to try it again. */
int atoll_task_after_stop(struct atoll_task *task, struct atoll_error *err) ATOLL_MUST_CHECK;

/* steps.c */
size_t atoll_task_step_count(void);
const char *atoll_task_step_name(size_t at); /* "" for the count */
int atoll_task_step_percent(size_t at);
/* Index of a name; the count if there is no such step. */
size_t atoll_task_step_find(const char *name);
void atoll_task_run(struct atoll_task *task);
/* How often the current step was begun, by any daemon. */
unsigned atoll_task_step_tries(struct atoll_task *task);
/* Whether the step was begun, at any time. */
bool atoll_task_has_begun(const struct atoll_task *task, const char *step);
/* The time of the current step; 0: it has its own. */
uint32_t atoll_task_step_ms(const struct atoll_task *task);
/* Ends what the current step waits for. */
void atoll_task_interrupt(struct atoll_task *task, const char *who);
/* The same with an error of the step, which the task fails with. */
void atoll_task_stop(struct atoll_task *task, const struct atoll_error *error);
/* The source was written. */
void atoll_task_go_on(struct atoll_task *task);
#define ATOLL_TASK_CANCELED_BY "_canceled_by" /* fact: a client wants it to end */
/* Kills what runs in the sandbox, if it is the task's own. */
void atoll_task_kill_commands(struct atoll_task *task, const char *who);
/* Completes the current step, which has nothing to do. */
void atoll_task_step_skip(struct atoll_task *task);
/* Completes the current step. */
void atoll_task_step_done(struct atoll_task *task, const struct atoll_error *error);

/* Whether the sandbox is the task's own, and is removed with it. */
bool atoll_task_drops_sandbox(const struct atoll_task *task);

/* Runs a shell command of a step, for as long as the step may take; `done` may be atoll_task_command_ended(), which completes the step. */
void atoll_task_shell(struct atoll_task *task, const char *name, const char *text,
                      void (*done)(struct atoll_task *task, const struct atoll_exec_result *result,
                                   const char *tail, const struct atoll_error *error));
void atoll_task_command_ended(struct atoll_task *task, const struct atoll_exec_result *result,
                              const char *tail, const struct atoll_error *error);

/* sandbox.c */
#define ATOLL_TASK_AGENT_TIMEOUT_S 3600
#define ATOLL_TASK_KEPT_S 7200
void atoll_task_sandbox(struct atoll_task *task); /* a step */
/* The task's own sandbox does not end before the current step, nor, after a failure, for ATOLL_TASK_KEPT_S. No
 * effect if the request has given its time. */
void atoll_task_sandbox_extend(struct atoll_task *task);
void atoll_task_sandbox_keep(struct atoll_task *task);
/* Whether the agent can be installed into a template of its own, from which the sandbox is made anew. */
bool atoll_task_has_layer(const struct atoll_task *task, const json_t *agent);
/* Does that, and completes the step; or `failed` is called, with an error unless the task was stopped. */
void atoll_task_layer(struct atoll_task *task,
                      void (*failed)(struct atoll_task *task, const struct atoll_error *error));
/* A number of the request, or else of the agent. */
double atoll_task_number(const struct atoll_task *task, const json_t *agent, const char *name,
                         double otherwise);
/* The agent as it is in the registry now. */
int atoll_task_agent_now(struct atoll_task *task, const json_t **ret,
                         struct atoll_error *err) ATOLL_MUST_CHECK;

/* hosts.c */
#define ATOLL_TASK_OWN_NETWORK "_own_network" /* fact: the policy of the sandbox is the task's */
bool atoll_task_owns_network(const struct atoll_task *task);
/* False: the task has no sandbox, or the sandbox has no network. */
bool atoll_task_has_network(const struct atoll_task *task, struct atoll_sandbox_view *ret);
/* Those of the hosts that the policy of the sandbox denies; owned by the caller. */
json_t *atoll_task_denied_hosts(const struct atoll_task *task, const json_t *hosts);
/* Adds them to the policy, which the task owns. what: what they are for. */
void atoll_task_allow_hosts(struct atoll_task *task, const json_t *hosts, const char *what,
                            atoll_done_fn *done);
/* "a.example, b.example" */
void atoll_task_list_hosts(const json_t *hosts, struct atoll_buf *out);

/* setup.c: a step */
void atoll_task_set_up(struct atoll_task *task);
/* Names of the setups of the registry that fit a directory with these files, one in each line. Owned by the
 * caller. */
json_t *atoll_task_setups(const struct atoll_registry *registry, const char *lines);

/* run.c: steps */
void atoll_task_install(struct atoll_task *task);
void atoll_task_run_agent(struct atoll_task *task);

/* runtimes.c: what the task's type, requirements and resources choose: {"name", "why", "environment",
 * "provider"}, owned by the caller; with resources alone only "why"; NULL: it has none of them.
 * FAILED_PRECONDITION: nothing fits. */
int atoll_task_runtime(const struct atoll_tasks *tasks, const json_t *request, json_t **ret,
                       struct atoll_error *err) ATOLL_MUST_CHECK;

/* failure.c */
/* False: the command was not ended by a limit of memory. */
bool atoll_task_ran_out(const struct atoll_task *task, const struct atoll_exec_result *result,
                        const char *tail, struct atoll_error *err);
/* The error of an agent that failed, by its words. */
void atoll_task_explain(const struct atoll_task *task, const json_t *agent,
                        const struct atoll_exec_result *result, const char *tail,
                        struct atoll_error *err);

/* budget.c: what a task uses */
/* Whether the agent reports what the budget limits. INVALID_ARGUMENT. */
int atoll_task_budget_check(const json_t *budget, const struct atoll_task_agent *agent,
                            struct atoll_error *err) ATOLL_MUST_CHECK;
/* Says in the log what the agent reports only at its end. */
void atoll_task_budget_warn(struct atoll_task *task, const json_t *agent);
void atoll_task_budget_begin(struct atoll_task *task);
/* For a retry. */
void atoll_task_budget_forget(struct atoll_task *task);
/* The agent has reported usage. */
void atoll_task_budget_usage(struct atoll_task *task);
/* Asks for the figures of the sandbox; stats NULL: it does not answer. No call if the task is gone. */
void atoll_task_figures(struct atoll_task *task,
                        void (*got)(struct atoll_task *task,
                                    const struct atoll_sandbox_stats *stats));
/* Notes them, then calls next. */
void atoll_task_measure(struct atoll_task *task, void (*next)(struct atoll_task *task));

/* open.c: a step: the pull request */
void atoll_task_open(struct atoll_task *task);

/* program.c: a program of the operator */
struct atoll_task_program_end {
    int status;       /* of waitpid(); -1: it was not started, or killed */
    const char *said; /* stdout and, behind it, stderr: its beginning */
    struct atoll_error error;
};
/* input: its stdin, copied. The task waits for it: nothing else may run. */
void atoll_task_program_run(struct atoll_task *task, const char *path, const char *input,
                            uint32_t timeout_ms,
                            void (*done)(struct atoll_task *task,
                                         const struct atoll_task_program_end *end));
/* Kills it; its end follows. Accepts a task without one. */
void atoll_task_program_kill(struct atoll_task *task);
/* Without its end. */
void atoll_task_program_drop(struct atoll_task *task);

/* repository.c: the steps that use git, except for the push */
#define ATOLL_TASK_SOURCE "_source" /* fact: the sandbox that has the client's repository */
void atoll_task_source(struct atoll_task *task);
void atoll_task_branch(struct atoll_task *task);
void atoll_task_commit(struct atoll_task *task);
bool atoll_task_has_repository(const struct atoll_task *task);
bool atoll_task_is_uploaded(const struct atoll_task *task);
/* What `atoll task retry` needs for the repository of a client's machine; "": nothing. */
const char *atoll_task_repo_option(const struct atoll_task *task);
/* A text of "repo" of the request; or NULL. */
const char *atoll_task_repo_text(const struct atoll_task *task, const char *name);
/* Whether there is a password or a token for the server of the repository. */
bool atoll_task_has_password(const struct atoll_task *task);
/* Runs git with the credentials of the repository, if it has some. host: the only server that gets them;
 * NULL: that of the request's URL. */
void atoll_task_git_as_user(struct atoll_task *task, const char *sandbox_id,
                            const struct atoll_git_request *request, const char *host,
                            void (*done)(void *arg, const struct atoll_git_result *result,
                                         const struct atoll_error *error));
/* Makes the first commit of a result the value of a fact. */
void atoll_task_note_commit(struct atoll_task *task, const char *name,
                            const struct atoll_git_result *result);
/* Sets the author of commits. */
void atoll_task_author(const struct atoll_task *task, struct atoll_git_request *ret);
/* Moves user name and password from the URL of the repository to members of their own. INVALID_ARGUMENT. */
int atoll_task_split_url(json_t *request, struct atoll_error *err) ATOLL_MUST_CHECK;
#define ATOLL_TASK_HOST_MAX 512
/* The server of the repository, as "host" or "host:port"; false: it has none. */
bool atoll_task_host(const struct atoll_task *task, char out[static ATOLL_TASK_HOST_MAX]);

/* push.c: a step */
void atoll_task_push(struct atoll_task *task);

/* push_apart.c: the sandbox from which a branch is pushed with credentials. No agent has run in it. */
#define ATOLL_TASK_APART_REPO "/tmp/atoll-push" /* the repository in it */
/* Its id; "": there is none. */
const char *atoll_task_apart_id(const struct atoll_task *task);
/* Makes it, with the branch as the task's own sandbox has it; the fact "commit" is what the branch has.
 * work_tree: checks the branch out. Either goes on with `next`, or ends the step. */
void atoll_task_apart(struct atoll_task *task, bool work_tree,
                      void (*next)(struct atoll_task *task));
/* Takes the server's branch, which it has fetched, to the task's own sandbox, as origin/BRANCH. Either goes on
 * with `next`, or ends the step. */
void atoll_task_apart_give_back(struct atoll_task *task, void (*next)(struct atoll_task *task));
/* Destroys it, if there is one, and completes the step. */
void atoll_task_apart_end(struct atoll_task *task, const struct atoll_error *error);
/* Destroys what an earlier daemon has left; `next` may be called at once. */
void atoll_task_apart_sweep(struct atoll_task *task, void (*next)(struct atoll_task *task));
/* Ends what runs in it. */
void atoll_task_apart_interrupt(struct atoll_task *task);
void atoll_task_apart_free(struct atoll_task *task);

/* carry.c: copies a file from one sandbox to another, of at most `max` bytes. `done` is called exactly once,
 * possibly before this returns. A task copies one file at a time. */
struct atoll_task_carry_request {
    const char *from_id, *from, *to_id, *to; /* ids and paths; copied */
    uint64_t max_bytes;
    void (*done)(struct atoll_task *task, const struct atoll_error *error);
};
void atoll_task_carry(struct atoll_task *task, const struct atoll_task_carry_request *request);
/* Ends it with the error of the step. */
void atoll_task_carry_stop(struct atoll_task *task);
/* Without a callback. */
void atoll_task_carry_free(struct atoll_task *task);

/* names.c: pure */
/* "Fix the login page!" → "atoll/fix-the-login-page-x7k2" with the beginning of the task's id. */
void atoll_task_branch_name(const char *instruction, const char *id,
                            char out[static ATOLL_TASK_BRANCH_MAX]);
/* The first line of a text, at most 72 bytes of it, for the subject of a commit. */
void atoll_task_subject(const char *instruction, char out[static 80]);

/* command.c: one command of a step */
struct atoll_task_command_request {
    const char *name;         /* unique in the task: part of the mark */
    const char *sandbox_id;   /* NULL: that of the task; copied */
    const char *const *argv;  /* NULL-terminated; copied */
    const char *const *env;   /* or NULL; copied, and erased when it is started */
    const char *user;         /* NULL: the sandbox's */
    const char *cwd;          /* likewise */
    uint32_t timeout_ms;      /* 0: none */
    uint32_t stall_ms;        /* killed when it prints nothing for so long; 0: never */
    double stall_cpu_percent; /* not killed if the sandbox uses that much of one CPU meanwhile */
    /* In the log when it is started, and in the history of a sandbox with checkpoints; NULL: it is the task's own. */
    const char *shown;
    bool quiet; /* its output is not in the log */
    /* One line of stdout, without its end; or NULL. */
    void (*line)(struct atoll_task *task, const char *line, size_t n);
    /* result: of the command; error: it could not be run, or its result is unknown. The output so far
     * (the last ATOLL_TASK_TAIL_MAX bytes of stderr and stdout together) is a text. */
    void (*done)(struct atoll_task *task, const struct atoll_exec_result *result, const char *tail,
                 const struct atoll_error *error);
};
#define ATOLL_TASK_TAIL_MAX 2048
/* Runs the command in the sandbox of the task, or follows it if an earlier daemon has started it. */
void atoll_task_command_run(struct atoll_task *task,
                            const struct atoll_task_command_request *request);
/* Whether a command line is of a step of the task. argv: NULL-terminated. */
bool atoll_task_has_mark(const struct atoll_task *task, const char *const *argv);
/* Kills it; its end follows. */
void atoll_task_command_kill(struct atoll_task *task, const char *who);
/* Without its end. Accepts a task without a command. */
void atoll_task_command_drop(struct atoll_task *task);
/* "exited with status 1", "was killed by signal 9 …": for error texts. */
void atoll_task_describe_end(const struct atoll_exec_result *result, char *out, size_t cap);

/* memory.c: the memory of the swarm, if the task is of one */
#define ATOLL_TASK_MEMORY_FILE "/tmp/.atoll-memory.json"
/* Either goes on with `next`, or ends the step with an error. */
void atoll_task_memory_give(struct atoll_task *task, void (*next)(struct atoll_task *task));
void atoll_task_memory_take(struct atoll_task *task, void (*next)(struct atoll_task *task));
/* For another sandbox: it does not have the file. */
void atoll_task_memory_forget(struct atoll_task *task);

/* mcp_servers.c: MCP servers for the agent */
#define ATOLL_TASK_MCP_FILE "/tmp/.atoll-mcp.json"
bool atoll_task_has_mcp(const struct atoll_task *task);
/* Whether the agent takes those of the request, they exist, and their secrets too. NOT_FOUND,
 * FAILED_PRECONDITION, INVALID_ARGUMENT. */
int atoll_task_mcp_check(const struct atoll_task *task, const json_t *agent,
                         struct atoll_error *err) ATOLL_MUST_CHECK;
/* Adds the hosts of remote servers to what the sandbox may reach. */
int atoll_task_mcp_hosts(const struct atoll_task *task, json_t *allow,
                         struct atoll_error *err) ATOLL_MUST_CHECK;
/* Adds header rules to the network of the sandbox, for headers that name secrets. */
int atoll_task_mcp_plan(struct atoll_task *task, json_t *sandbox,
                        struct atoll_error *err) ATOLL_MUST_CHECK;
/* Writes the file of the agent. Either goes on with `next`, or ends the step with an error. */
void atoll_task_mcp_give(struct atoll_task *task, void (*next)(struct atoll_task *task));
/* Erases its text, which may have credentials. */
void atoll_task_mcp_forget(struct atoll_task *task);

/* Names of connectors with OAuth among the servers of the task: an array, owned by the caller. NOT_FOUND. */
int atoll_task_mcp_oauth(const struct atoll_task *task, json_t **ret,
                         struct atoll_error *err) ATOLL_MUST_CHECK;

/* oauth_task.c: access tokens of connectors */
#define ATOLL_TASK_OAUTH "_oauth" /* fact: connectors whose tokens the sandbox uses */
/* Goes on with `next` when all tokens are good, or ends the step with an error. */
void atoll_task_oauth_wait(struct atoll_task *task, void (*next)(struct atoll_task *task));
/* A token that the task waits for was got, or not. */
void atoll_task_oauth_got(struct atoll_tasks *tasks, const char *task_id,
                          const struct atoll_error *error);

/* capture.c: files that are kept */
bool atoll_task_captures(const struct atoll_task *task);
/* Patterns for engine/artifact/artifacts.h; the array is owned by the caller. */
const char **atoll_task_patterns(const struct atoll_task *task);
/* Notes what is there before the agent runs. Either goes on with `next`, or ends the step. */
void atoll_task_capture_begin(struct atoll_task *task, void (*next)(struct atoll_task *task));
void atoll_task_capture(struct atoll_task *task); /* a step: makes the diff */
/* Copies the files of a sandbox that stays. */
void atoll_task_capture_now(struct atoll_task *task, atoll_done_fn *done);

/* agents.c: agents of the registry */
int atoll_task_agent_find(const struct atoll_tasks *tasks, const json_t *request,
                          struct atoll_task_agent *ret, struct atoll_error *err) ATOLL_MUST_CHECK;
/* Adds the agent's own model and system prompt to a request that has none. FAILED_PRECONDITION. */
int atoll_task_agent_defaults(const struct atoll_tasks *tasks, json_t *request,
                              const struct atoll_task_agent *agent,
                              struct atoll_error *err) ATOLL_MUST_CHECK;
/* Whether the agent has a place for each value that the request has. INVALID_ARGUMENT. */
int atoll_task_agent_takes(const json_t *request, const struct atoll_task_agent *agent,
                           struct atoll_error *err) ATOLL_MUST_CHECK;
/* The command line with the instruction, model and so on in place. The array and its texts are owned by
 * the caller: atoll_task_strings_free(). NULL: out of memory. */
char **atoll_task_agent_argv(const struct atoll_task *task, const json_t *agent);
/* NAME=VALUE of the agent, the request and the keys. Ownership as above. */
int atoll_task_agent_env(const struct atoll_task *task, const json_t *agent, char ***ret,
                         struct atoll_error *err) ATOLL_MUST_CHECK;
void atoll_task_strings_free(char **strings); /* erases them; accepts NULL */

/* output.c */
/* A number of usage that the tries of this attempt have reported together. */
double atoll_task_used(const struct atoll_task *task, const char *name);
/* For a retry: what was used counts as that of earlier attempts. */
void atoll_task_used_earlier(struct atoll_task *task);
/* Forgets what an earlier try has said, except for its usage. */
void atoll_task_output_forget(struct atoll_task *task);
/* Takes what the agent's rules find in one line of its output into the facts. */
void atoll_task_agent_line(struct atoll_task *task, const json_t *agent, const char *line,
                           size_t n);
/* What its lines say about a run that has ended with status 0. */
bool atoll_task_agent_succeeded(const struct atoll_task *task, const json_t *agent);

/* keys.c: keys of agents */
/* Whether a task with "keys": "egress" can keep all its keys outside. INVALID_ARGUMENT,
 * FAILED_PRECONDITION. */
int atoll_task_keys_check(const struct atoll_task *task, const json_t *agent,
                          struct atoll_error *err) ATOLL_MUST_CHECK;
/* Adds header rules to the network of the sandbox, as a request of POST /api/sandboxes: the keys that they
 * put into requests need not be inside. FAILED_PRECONDITION: the task wants that, and it cannot be. */
int atoll_task_keys_plan(struct atoll_task *task, const json_t *agent, json_t *sandbox,
                         struct atoll_error *err) ATOLL_MUST_CHECK;
/* Whether there is a header rule for the domain. */
bool atoll_task_has_rule(const json_t *transforms, const char *domain);
/* The network of a sandbox's request as an object, if it has one that goes through atoll-egress; else NULL. */
json_t *atoll_task_network(json_t *sandbox);
/* Appends what the agent gets as this variable; nothing if "env" of the task has it. Returns 1 if there is
 * such a key, 0 if not. The caller erases the buffer. */
int atoll_task_key_variable(const struct atoll_task *task, const json_t *agent, const char *name,
                            struct atoll_buf *out) ATOLL_MUST_CHECK;
/* Appends the value of a key. False: there is no such key. */
bool atoll_task_key_value(const struct atoll_task *task, const char *name,
                          struct atoll_buf *out) ATOLL_MUST_CHECK;

/* log.c */
/* Of a log that an earlier daemon has written, without opening it. */
void atoll_task_log_measure(struct atoll_task *task);
int atoll_task_log_open(struct atoll_task *task, struct atoll_error *err) ATOLL_MUST_CHECK;
void atoll_task_log_close(struct atoll_task *task);
void atoll_task_log_remove(struct atoll_tasks *tasks, const char *id);
/* Removes the files of tasks that are not there: a daemon died while it removed them. */
void atoll_task_log_sweep(struct atoll_tasks *tasks);
void atoll_task_log(struct atoll_task *task, const char *level, const char *fmt, ...)
    ATOLL_PRINTF(3, 4);
/* end: offset behind the bytes in the stream. */
void atoll_task_log_output(struct atoll_task *task, int stream, const char *text, size_t n,
                           uint64_t end);
/* The largest "end" of each stream since the current step began, from the log. */
void atoll_task_log_offsets(struct atoll_task *task, uint64_t ret[static ATOLL_STREAM_STDERR + 1]);
void atoll_task_changed(struct atoll_task *task);
/* The task is in no list any more: tells its watchers, and forgets them. */
void atoll_task_unwatched(struct atoll_task *task);
