/*
 * Tables (work.c, records.c) say for each operation how its command is made. Commands are programs with arguments, or
 * constant scripts of sh with arguments: no text of a client becomes part of a script.
 *
 * Options of a client that git would take for its own options ("--upload-pack=…") are refused, and
 * paths of files are given on standard input or as literal pathspecs.
 */
#include "git/command_internal.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include "base/memory.h"
#include "git/porcelain.h"

#define ARGS_MAX 48 /* besides files */
#define ENV_MAX 24
#define ARGV_FILES_MAX 1024 /* of commands that take files as arguments */
#define INPUT_MAX ((size_t)8 * 1024 * 1024)
#define LOCAL_MS (120 * 1000)
#define NETWORK_MS (600 * 1000)
/* How often git may ask for the credentials: once for each repository it talks to. */
#define ANSWERS 4
#define ANSWERS_SUBMODULES 64

/*
 * Beginnings of scripts: n runs a git that talks to a server, c closes the credentials, w prints the
 * current branch and commit of the repository $d.
 *
 * With credentials, standard input becomes descriptor 9, from which only the credential helper
 * reads: one answer of two lines for each question. GIT_ALLOW_PROTOCOL excludes transports that are
 * programs; a detached gc would keep the descriptor.
 */
#define WHERE                                                                  \
    "w() { printf '%s\\0' \"$(git -C \"$d\" symbolic-ref -q --short HEAD)\"\n" \
    "git -C \"$d\" log -1 -z '--format=tformat:" ATOLL_GIT_COMMIT_FORMAT "' 2>/dev/null || :; }\n"
#define PLAIN               \
    "n() { git \"$@\"; }\n" \
    "c() { :; }\n" WHERE
#define SECRET                                                                       \
    "exec 9<&0 </dev/null\n"                                                         \
    "h='!f() { test \"$1\" = get || exit 0; while IFS== read -r k v; do case $k in " \
    "protocol) p=$v ;; host) h=$v ;; esac; done; case $ATOLL_GIT_SERVER in "         \
    "\"\" | \"$h\" | \"$p://$h\") ;; *) exit 0 ;; esac; "                            \
    "IFS= read -r u <&9 && IFS= read -r w <&9 && "                                   \
    "printf \"username=%s\\npassword=%s\\n\" \"$u\" \"$w\"; }; f'\n"                 \
    "n() { GIT_ALLOW_PROTOCOL=http:https git -c credential.helper= "                 \
    "-c \"credential.helper=$h\" -c core.hooksPath=/dev/null -c gc.auto=0 "          \
    "-c maintenance.auto=false \"$@\"; }\n"                                          \
    "c() { exec 9<&-; }\n" WHERE

const char *atoll_git_keep(struct atoll_git_command *c, char *text)
{
    if (!text)
        abort(); /* a short text */
    c->texts[c->text_count++] = text;
    return text;
}

void atoll_git_add_number(struct atoll_git_command *c, const char *before, uint32_t number,
                          const char *after)
{
    char *text = NULL;

    if (asprintf(&text, "%s%" PRIu32 "%s", before, number, after) < 0)
        text = NULL;
    atoll_git_add(c, atoll_git_keep(c, text));
}

static void add_env(struct atoll_git_command *c, const char *name, const char *value)
{
    char *text = NULL;

    if (asprintf(&text, "%s=%s", name, value) < 0)
        text = NULL;
    c->env[c->envc++] = atoll_git_keep(c, text);
}

int atoll_git_refuse(struct atoll_error *err, const char *name, const char *what)
{
    return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL, "%s %s", name, what);
}

int atoll_git_need(struct atoll_error *err, const char *name, const char *value)
{
    return value && *value ? 0 : atoll_git_refuse(err, name, "is missing: a string");
}

static const struct atoll_git_maker *maker_of(enum atoll_git_op op)
{
    return atoll_git_work[op].name ? &atoll_git_work[op] : &atoll_git_records[op];
}

const char *atoll_git_op_name(enum atoll_git_op op)
{
    return maker_of(op)->name;
}

/* What all operations have in common. */

static int check_words(const struct atoll_git_request *r, struct atoll_error *err)
{
    const struct {
        const char *name, *value;
    } words[] = {{"ref", r->ref},   {"to", r->to},         {"commit", r->commit},
                 {"name", r->name}, {"remote", r->remote}, {"path", r->path}};

    for (size_t i = 0; i < ATOLL_ARRAY_LEN(words); i++) {
        const char *v = words[i].value;
        if (v && (!*v || *v == '-' || !atoll_git_is_credential(v)))
            return atoll_git_refuse(
                err, words[i].name,
                "must not be empty, begin with \"-\" or have control characters");
    }
    if (!r->author_name != !r->author_email)
        return atoll_git_refuse(err, "author", "needs a name and an email");
    return 0;
}

static int check_credentials(const struct atoll_git_request *r, const struct atoll_git_maker *maker,
                             const struct atoll_git_url *url, struct atoll_error *err)
{
    const struct atoll_git_credentials *k = &r->credentials;

    if (!k->password)
        return k->username || k->host ? atoll_git_refuse(err, "credentials", "have no password")
                                      : 0;
    if (!maker->network || (r->op == ATOLL_GIT_CLONE && !url->http))
        return atoll_git_refuse(
            err, "credentials",
            "are for repositories at http and https URLs; for ssh, the sandbox needs a key in its home");
    if (!*k->password || strlen(k->password) >= ATOLL_GIT_SECRET_MAX ||
        strlen(atoll_git_or(k->username, "")) >= ATOLL_GIT_SECRET_MAX ||
        !atoll_git_is_credential(k->password) ||
        !atoll_git_is_credential(atoll_git_or(k->username, "")) ||
        !atoll_git_is_credential(atoll_git_or(k->host, "")))
        return atoll_git_refuse(err, "credentials",
                                "have an empty, too long or unprintable member");
    return 0;
}

static bool has_helper(const struct atoll_git_request *r)
{
    return r->credentials.password && r->op != ATOLL_GIT_CREDENTIALS_STORE;
}

/* Answers for the credential helper: lines of user names and passwords. */
static int add_secret(const struct atoll_git_request *r, struct atoll_git_command *c,
                      struct atoll_error *err)
{
    const struct atoll_git_credentials *k = &r->credentials;
    /* Servers that take tokens as passwords do not look at the user name, but git needs one. */
    const char *user = k->username && *k->username ? k->username : "git";
    unsigned answers = r->submodules ? ANSWERS_SUBMODULES : ANSWERS;
    size_t one = strlen(user) + strlen(k->password) + 2;
    uint8_t *tail;

    if (atoll_buf_reserve(&c->input, one * answers + 1, &tail) < 0)
        return atoll_fail(err, ATOLL_ERR_UNAVAILABLE, ENOMEM, "no memory for the credentials");
    for (unsigned i = 0; i < answers; i++)
        (void)!atoll_buf_appendf(&c->input, "%s\n%s\n", user, k->password);
    add_env(c, "ATOLL_GIT_SERVER", atoll_git_or(k->host, c->url.server));
    return 0;
}

static void add_identity(const struct atoll_git_request *r, struct atoll_git_command *c)
{
    if (!r->author_name)
        return;
    add_env(c, "GIT_AUTHOR_NAME", r->author_name);
    add_env(c, "GIT_AUTHOR_EMAIL", r->author_email);
    add_env(c, "GIT_COMMITTER_NAME", r->author_name);
    add_env(c, "GIT_COMMITTER_EMAIL", r->author_email);
}

static void add_environment(const struct atoll_git_request *r, struct atoll_git_command *c)
{
    static const char *const always[] = {
        "LC_ALL=C",
        "GIT_TERMINAL_PROMPT=0",
        "GIT_ASKPASS=",
        "GIT_PAGER=cat",
        "GIT_EDITOR=:",
        "GIT_LFS_SKIP_SMUDGE=1",
        "GIT_CONFIG_COUNT=3",
        "GIT_CONFIG_KEY_0=core.quotePath",
        "GIT_CONFIG_VALUE_0=false",
        "GIT_CONFIG_KEY_1=core.fsmonitor",
        "GIT_CONFIG_VALUE_1=false",
        "GIT_CONFIG_KEY_2=log.showSignature",
        "GIT_CONFIG_VALUE_2=false",
    };

    for (size_t i = 0; i < ATOLL_ARRAY_LEN(always); i++)
        c->env[c->envc++] = always[i];
    if (r->insecure_tls)
        c->env[c->envc++] = "GIT_SSL_NO_VERIFY=1";
    add_identity(r, c);
}

static void begin_program(const struct atoll_git_request *r, struct atoll_git_command *c)
{
    atoll_git_add(c, "git");
    /* A clone and an init make the directory. */
    if (r->path && r->op != ATOLL_GIT_INIT) {
        atoll_git_add(c, "-C");
        atoll_git_add(c, r->path);
    }
    /* No hook runs in these, which would inherit the setting. */
    atoll_git_add_if(c, r->op == ATOLL_GIT_LOG || r->op == ATOLL_GIT_DIFF, "--literal-pathspecs");
}

static void begin_script(const struct atoll_git_request *r, const struct atoll_git_maker *maker,
                         struct atoll_git_command *c)
{
    char *script = NULL;
    bool has_path = r->op != ATOLL_GIT_CLONE; /* which has it among its own arguments */

    if (asprintf(&script, "%s%s%s", has_helper(r) ? SECRET : PLAIN, has_path ? "d=$1\nshift\n" : "",
                 maker->script) < 0)
        script = NULL;
    atoll_git_add(c, "sh");
    atoll_git_add(c, "-c");
    atoll_git_add(c, atoll_git_keep(c, script));
    atoll_git_add(c, "git");
    if (has_path)
        atoll_git_add(c, atoll_git_or(r->path, "."));
}

static int fill(const struct atoll_git_request *r, const struct atoll_git_maker *maker,
                struct atoll_git_command *c, struct atoll_error *err)
{
    size_t files = 0;

    while (r->files && r->files[files])
        files++;
    if ((r->op == ATOLL_GIT_LOG || r->op == ATOLL_GIT_DIFF) && files > ARGV_FILES_MAX)
        return atoll_git_refuse(err, "files", "has too many paths");
    c->argv = atoll_alloc((ARGS_MAX + ATOLL_MIN(files, (size_t)ARGV_FILES_MAX)) * sizeof(*c->argv));
    c->env = atoll_alloc(ENV_MAX * sizeof(*c->env));
    add_environment(r, c);
    if (maker->script)
        begin_script(r, maker, c);
    else
        begin_program(r, c);
    if (maker->fill(r, c, err) < 0)
        return -EINVAL;
    return has_helper(r) ? add_secret(r, c, err) : 0;
}

int atoll_git_command_make(const struct atoll_git_request *request, struct atoll_git_command *ret,
                           struct atoll_error *err)
{
    const struct atoll_git_maker *maker = maker_of(request->op);
    struct atoll_git_request whole = *request;
    int r = 0;

    *ret = (struct atoll_git_command){0};
    atoll_buf_init(&ret->input, INPUT_MAX);
    if (request->op == ATOLL_GIT_CLONE || request->op == ATOLL_GIT_REMOTE_ADD ||
        request->op == ATOLL_GIT_CREDENTIALS_STORE)
        r = request->url ? atoll_git_url_split(request->url, &ret->url, err)
                         : atoll_git_need(err, "url", NULL);
    if (r == 0 && request->op == ATOLL_GIT_CLONE && *ret->url.password &&
        !whole.credentials.password)
        whole.credentials = (struct atoll_git_credentials){.username = ret->url.username,
                                                           .password = ret->url.password};
    if (r == 0)
        r = check_words(&whole, err);
    if (r == 0)
        r = check_credentials(&whole, maker, &ret->url, err);
    if (r == 0)
        r = fill(&whole, maker, ret, err);
    ret->timeout_ms = whole.timeout_ms ? whole.timeout_ms : maker->network ? NETWORK_MS : LOCAL_MS;
    return r;
}

void atoll_git_command_done(struct atoll_git_command *command)
{
    for (size_t i = 0; i < command->text_count; i++)
        free(command->texts[i]);
    free(command->argv);
    free(command->env);
    atoll_buf_wipe(&command->input);
    explicit_bzero(&command->url, sizeof(command->url));
    command->text_count = 0;
    command->argv = command->env = NULL;
}
