#include "cli/request.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "client/compose.h"
#include "image/login.h"

#define AT(field) offsetof(struct atoll_cli_sandbox_options, field)
const struct atoll_cli_option atoll_cli_sandbox_options[] = {
    {"template", 0, ATOLL_CLI_TEXT, AT(template), "TEMPLATE",
     "template to create it from (default: host)", NULL},
    {"name", 0, ATOLL_CLI_TEXT, AT(name), "NAME",
     "name of the sandbox, which every verb takes in place of its id", NULL},
    {"workdir", 0, ATOLL_CLI_TEXT, AT(workdir), "PATH",
     "working directory of the sandbox, made if missing (default: the user's home)", NULL},
    {"memory", 'm', ATOLL_CLI_SIZE, AT(memory_bytes), "SIZE", "memory limit (default: 512M)", NULL},
    {"cpus", 0, ATOLL_CLI_DECIMAL, AT(cpus), "N", "CPU limit, such as 0.5 (default: 1)", NULL},
    {"disk", 0, ATOLL_CLI_SIZE, AT(disk_bytes), "SIZE", "disk space limit (default: 256M)", NULL},
    {"pids", 0, ATOLL_CLI_COUNT, AT(pids), "N", "process limit (default: 256)", NULL},
    {"io-mbps", 0, ATOLL_CLI_DECIMAL, AT(io_mbps), "N",
     "disk bandwidth limit, MiB a second each way (default: none)", NULL},
    {"waive", 0, ATOLL_CLI_LIST, AT(waive), "WHAT",
     "accept that this host cannot enforce a limit: memory, cpu, pids, disk, io, all", NULL},
    {"idle", 0, ATOLL_CLI_TIME, AT(idle_seconds), "TIME",
     "end the sandbox after this time without a command or request", NULL},
    {"lease", 0, ATOLL_CLI_TIME, AT(lease_seconds), "TIME",
     "end the sandbox after this time without a heartbeat", NULL},
    {"cpu-budget", 0, ATOLL_CLI_TIME, AT(cpu_budget_seconds), "TIME",
     "limit on the total CPU time of its commands", NULL},
    {"output-budget", 0, ATOLL_CLI_SIZE, AT(output_budget_bytes), "SIZE",
     "limit on the total output of its commands", NULL},
    {"on-deadline", 0, ATOLL_CLI_TEXT, AT(on_deadline), "destroy|pause",
     "what to do when its time is over (default: destroy)", NULL},
    {"persistent", 0, ATOLL_CLI_FLAG, AT(persistent), NULL,
     "keep its disk after `atoll stop` and daemon restarts", NULL},
    {"read-only", 0, ATOLL_CLI_FLAG, AT(read_only), NULL,
     "make its root file system read-only; /home, /root, /tmp and /run stay writable", NULL},
    {"checkpoints", 0, ATOLL_CLI_TEXT, AT(checkpoints), "command|none",
     "keep its files before and after every command, for history and undo (default: none)", NULL},
    {"disk-kind", 0, ATOLL_CLI_TEXT, AT(disk_kind), "cow|memory|image",
     "kind of its disk; cow: snapshots and checkpoints are cheap (default: auto)", NULL},
    {"provider", 0, ATOLL_CLI_TEXT, AT(provider), "PROVIDER",
     "provider that makes it (default: auto; see `atoll providers`)", NULL},
    {"image", 0, ATOLL_CLI_TEXT, AT(image), "IMAGE",
     "create it from a container image instead of a template", NULL},
    {"isolation", 0, ATOLL_CLI_TEXT, AT(isolation), "namespaces|container|gvisor|microvm",
     "required isolation", NULL},
    {"network", 0, ATOLL_CLI_TEXT, AT(network), "none|isolated|bridge", "network (default: none)",
     NULL},
    {"net", 0, ATOLL_CLI_TEXT, AT(network), "MODE", "the same as --network", NULL},
    {"allow", 0, ATOLL_CLI_LIST, AT(allow), "TARGET",
     "let it reach a domain, address or range, such as '*.example.org', and nothing that is not listed",
     NULL},
    {"allow-domain", 0, ATOLL_CLI_LIST, AT(allow), "DOMAIN", "the same as --allow", NULL},
    {"deny", 0, ATOLL_CLI_LIST, AT(deny), "TARGET",
     "deny it a domain, address or range, such as 203.0.113.0/24:25; goes before --allow", NULL},
    {"network-name", 0, ATOLL_CLI_TEXT, AT(network_name), "NAME",
     "network of your sandboxes that reach each other by their names", NULL},
    {"mbps", 0, ATOLL_CLI_COUNT, AT(network_mbps), "N",
     "network bandwidth limit, megabits a second each way (default: none)", NULL},
    {"publish", 'p', ATOLL_CLI_LIST, AT(publish), "[[IP:]HOSTPORT:]PORT",
     "let clients reach a TCP port of it at a port of 127.0.0.1, or of another address", NULL},
    {"volume", 'v', ATOLL_CLI_LIST, AT(volumes), "NAME:PATH[:ro]",
     "mount a volume, or a folder of the host: DIR:PATH[:ro|:rw|:cow] with a slash in DIR", NULL},
    {"registry-user", 0, ATOLL_CLI_TEXT, AT(registry_user), "NAME",
     "user for the image registry; set ATOLL_REGISTRY_PASSWORD, too", NULL},
    {"label", 'l', ATOLL_CLI_LIST, AT(labels), "K=V",
     "attach a label; `atoll ls --filter label=K=V` finds it", NULL},
    {"recreate", 0, ATOLL_CLI_FLAG, AT(recreate), NULL,
     "if the provider loses it, create it again (its files are lost)", NULL},
    {"artifact", 0, ATOLL_CLI_LIST, AT(artifacts), "PATTERN",
     "files to keep when it ends, such as 'out/*.png'", NULL},
    {0},
};
#undef AT

#define AT(field) offsetof(struct atoll_cli_env, field)
const struct atoll_cli_option atoll_cli_env_options[] = {
    {"env", 'e', ATOLL_CLI_LIST, AT(items), "K=V",
     "set an environment variable; K alone copies it from your environment", NULL},
    {"env-file", 0, ATOLL_CLI_LIST, AT(files), "FILE",
     "set the variables in a file, one K=V or K on each line", NULL},
    {0},
};
#undef AT

#define AT(field) offsetof(struct atoll_cli_command_options, field)
const struct atoll_cli_option atoll_cli_command_options[] = {
    {"user", 'u', ATOLL_CLI_TEXT, AT(user), "USER[:GROUP]",
     "user to run it as, names or numbers (default: user, uid 1000)", NULL},
    {"cwd", 'w', ATOLL_CLI_TEXT, AT(cwd), "PATH",
     "working directory of the command (default: that of the sandbox)", NULL},
    {.kind = ATOLL_CLI_TABLE, .offset = AT(env), .table = atoll_cli_env_options},
    {"timeout", 0, ATOLL_CLI_TIME, AT(timeout_seconds), "TIME",
     "kill the command and its children after this time", NULL},
    {"stdin", 'i', ATOLL_CLI_FLAG, AT(interactive), NULL,
     "forward standard input even if it is a terminal", NULL},
    {"tty", 't', ATOLL_CLI_FLAG, AT(tty), NULL, "run the command on a pseudo-terminal", NULL},
    {0},
};
#undef AT

/* Names of all --waive options; one option may list several ("memory,cpu"). Ends with NULL. */
struct waived {
    const char *names[64];
    size_t n;
};

static int add_waived(struct waived *waived, const char *text, struct atoll_error *err)
{
    static const char *const known[] = {"memory", "cpu", "pids", "disk", "io", "all"};

    while (*text) {
        size_t n = strcspn(text, ","), i = 0;
        while (i < ATOLL_ARRAY_LEN(known) &&
               (strlen(known[i]) != n || memcmp(known[i], text, n) != 0))
            i++;
        if (i == ATOLL_ARRAY_LEN(known))
            return atoll_fail(
                err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                "--waive: \"%.*s\" is not a limit; known are memory, cpu, pids, disk, io, all",
                (int)n, text);
        if (waived->n + 1 < ATOLL_ARRAY_LEN(waived->names))
            waived->names[waived->n++] = known[i];
        text += n + (text[n] == ',');
    }
    return 0;
}

static int parse_deadline(const char *text, enum atoll_client_at_deadline *ret,
                          struct atoll_error *err)
{
    static const char *const known[] = {
        [ATOLL_CLIENT_AT_DEADLINE_DESTROY] = "destroy",
        [ATOLL_CLIENT_AT_DEADLINE_PAUSE] = "pause",
    };

    if (!text)
        return 0;
    for (unsigned i = ATOLL_CLIENT_AT_DEADLINE_DESTROY; i < ATOLL_ARRAY_LEN(known); i++)
        if (strcmp(known[i], text) == 0) {
            *ret = (enum atoll_client_at_deadline)i;
            return 0;
        }
    return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                      "--on-deadline: \"%.40s\" must be destroy or pause", text);
}

/* The login that Docker has for the registry of the image; without one, nothing is added. */
static int add_docker_login(json_t *request, const char *image, struct atoll_error *err)
{
    struct atoll_image_reference ref;
    struct atoll_image_login login = {0};
    char path[4096];
    int r = 0;

    if (!image || atoll_image_reference_parse(image, &ref, err) < 0 ||
        atoll_image_login_path(path, sizeof(path)) < 0 ||
        atoll_image_login_load(path, ref.host, &login, err) < 0)
        return 0; /* the daemon says what is wrong with the name */
    if (login.user && login.password)
        r = json_object_set_new(
            request, "registry",
            json_pack("{s:s, s:s}", "username", login.user, "password", login.password));
    atoll_image_login_done(&login);
    return r < 0 ? atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                              "the login for %.100s in Docker's config.json is not UTF-8", ref.host)
                 : 0;
}

int atoll_cli_add_registry(json_t *request, const char *image, const char *user,
                           struct atoll_error *err)
{
    const char *password = getenv("ATOLL_REGISTRY_PASSWORD");

    if (!user)
        return add_docker_login(request, image, err);
    if (!password)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                          "--registry-user: set ATOLL_REGISTRY_PASSWORD, too");
    if (json_object_set_new(request, "registry",
                            json_pack("{s:s, s:s}", "username", user, "password", password)) < 0)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                          "--registry-user: name and password must be UTF-8");
    return 0;
}

/* Copies the items to `out`, which then ends with NULL. */
static int take_labels(const struct atoll_cli_list *labels, const char **out,
                       struct atoll_error *err)
{
    for (size_t i = 0; i < labels->n; i++) {
        const char *equals = strchr(labels->items[i], '=');
        if (!equals || equals == labels->items[i])
            return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                              "--label: \"%.80s\" must be K=V", labels->items[i]);
        out[i] = labels->items[i];
    }
    return 0;
}

/* A folder of this host, without links: the daemon does not follow them. One that is not here may exist at the
 * daemon. */
static const char *folder_of(const char *item, size_t n, char real[static PATH_MAX])
{
    char name[PATH_MAX];

    if (n >= sizeof(name))
        return NULL;
    memcpy(name, item, n);
    name[n] = '\0';
    if (realpath(name, real))
        return real;
    return *item == '/' ? memcpy(real, name, n + 1) : NULL;
}

/* `item` is "NAME:PATH" or "DIR:PATH", which has a slash or is a dot, either with an optional mode. */
static int add_volume(json_t *request, const char *item, struct atoll_error *err)
{
    const char *colon = strchr(item, ':'), *end = colon ? strchr(colon + 1, ':') : NULL;
    const char *source = item, *mode = end ? end + 1 : "rw";
    size_t n = colon ? (size_t)(colon - item) : 0;
    bool folder = n > 0 && (memchr(item, '/', n) || *item == '.');
    json_t *volumes = json_object_get(request, "volumes");
    char real[PATH_MAX];
    json_t *volume;

    if (n == 0 || colon[1] != '/' ||
        (strcmp(mode, "rw") != 0 && strcmp(mode, "ro") != 0 && strcmp(mode, "cow") != 0))
        return atoll_fail(
            err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
            "--volume: \"%.100s\" is not NAME:PATH or DIR:PATH, with an absolute PATH and optionally "
            ":ro, :rw or, for a DIR, :cow",
            item);
    if (folder) {
        source = folder_of(item, n, real);
        if (!source)
            return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, errno, "--volume: %.*s: %s",
                              (int)ATOLL_MIN(n, (size_t)200), item, strerror(errno));
        n = strlen(source);
    }
    if (!volumes) {
        volumes = json_array();
        (void)json_object_set_new(request, "volumes", volumes);
    }
    volume =
        json_pack("{s:s%, s:s%, s:s}", folder ? "hostPath" : "name", source, n, "path", colon + 1,
                  end ? (size_t)(end - colon - 1) : strlen(colon + 1), "mode", mode);
    if (json_array_append_new(volumes, volume) < 0)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL, "--volume: not valid UTF-8");
    return 0;
}

int atoll_cli_add_sandbox(json_t *request, const struct atoll_cli_sandbox_options *options,
                          double lifetime_seconds, struct atoll_error *err)
{
    struct waived waived = {.n = 0};
    const char *artifacts[ATOLL_CLI_LIST_MAX + 1] = {NULL};
    const char *labels[ATOLL_CLI_LIST_MAX + 1] = {NULL};
    const char *allow[ATOLL_CLI_LIST_MAX + 1] = {NULL}, *deny[ATOLL_CLI_LIST_MAX + 1] = {NULL};
    struct atoll_client_sandbox_options o = {
        .size = sizeof(o),
        .template_name = options->template,
        .memory_bytes = options->memory_bytes,
        .disk_bytes = options->disk_bytes,
        .pids = options->pids,
        .cpus = options->cpus,
        .io_mbps = options->io_mbps,
        .timeout_seconds = lifetime_seconds,
        .waive = waived.names,
        .idle_seconds = options->idle_seconds,
        .lease_seconds = options->lease_seconds,
        .cpu_budget_seconds = options->cpu_budget_seconds,
        .output_budget_bytes = options->output_budget_bytes,
        .persistent = options->persistent,
        .provider = options->provider,
        .image = options->image,
        .isolation = options->isolation,
        .network_mode = options->network,
        .network_allow = allow,
        .network_deny = deny,
        .network_name = options->network_name,
        .network_mbps = options->network_mbps,
        .recreate = options->recreate,
        .artifacts = artifacts,
        .metadata = labels,
    };
    int r = parse_deadline(options->on_deadline, &o.at_deadline, err);

    memcpy(allow, options->allow.items, options->allow.n * sizeof(allow[0]));
    memcpy(deny, options->deny.items, options->deny.n * sizeof(deny[0]));
    memcpy(artifacts, options->artifacts.items, options->artifacts.n * sizeof(artifacts[0]));
    if (r == 0)
        r = take_labels(&options->labels, labels, err);
    for (size_t i = 0; r == 0 && i < options->waive.n; i++)
        r = add_waived(&waived, options->waive.items[i], err);
    if (r == 0)
        r = atoll_compose_sandbox(request, &o, err);
    if (r == 0)
        r = atoll_compose_text(request, "name", options->name, err);
    if (r == 0)
        r = atoll_compose_text(request, "workdir", options->workdir, err);
    if (r == 0)
        r = atoll_compose_text(request, "checkpoints", options->checkpoints, err);
    if (r == 0 && options->disk_kind &&
        json_object_set_new(request, "disk", json_pack("{s:s}", "kind", options->disk_kind)) < 0)
        r = atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL, "--disk-kind: not valid UTF-8");
    if (r == 0 && options->read_only && json_object_set_new(request, "readOnly", json_true()) < 0)
        r = atoll_fail_errno(err, ENOMEM, "request");
    if (r == 0)
        r = atoll_cli_add_registry(request, options->image, options->registry_user, err);
    for (size_t i = 0; r == 0 && i < options->volumes.n; i++)
        r = add_volume(request, options->volumes.items[i], err);
    return r;
}

static const struct {
    const char *field, *option, *unit;
} fields[] = {
    {"limits.memoryMB", "memory", " (in MiB)"},
    {"limits.diskMB", "disk", " (in MiB)"},
    {"limits.cpuCores", "cpus", ""},
    {"limits.pids", "pids", ""},
    {"limits.ioMbps", "io-mbps", ""},
    {"limits.timeoutSeconds", "timeout", ""},
    {"lifetime.idleSeconds", "idle", ""},
    {"lifetime.leaseSeconds", "lease", ""},
    {"lifetime.cpuSeconds", "cpu-budget", ""},
    {"lifetime.outputBytes", "output-budget", " (in bytes)"},
    {"name", "name", ""},
    {"workdir", "workdir", ""},
    {"template", "template", ""},
    {"provider", "provider", ""},
    {"disk.kind", "disk-kind", ""},
    {"image", "image", ""},
    {"isolation", "isolation", ""},
    {"networkMode", "network", ""},
    {"networkMbps", "mbps", ""},
    {"network.allow", "allow", ""},
    {"network.deny", "deny", ""},
    {"network.name", "network-name", ""},
    {"artifacts", "artifact", ""},
    {"user", "user", ""},
    {"cwd", "cwd", ""},
    {"timeoutSeconds", "timeout", ""},
};

static bool has_option(const struct atoll_cli_option *options, const char *name)
{
    const struct atoll_cli_option *option;
    size_t pos = 0;

    while ((option = atoll_cli_option_next(options, &pos)))
        if (strcmp(option->name, name) == 0)
            return true;
    return false;
}

void atoll_cli_name_option(const struct atoll_cli_option *options, struct atoll_error *err)
{
    char rest[ATOLL_ERROR_TEXT_MAX];

    for (size_t i = 0; i < ATOLL_ARRAY_LEN(fields); i++) {
        size_t n = strlen(fields[i].field);
        if (strncmp(err->text, fields[i].field, n) != 0)
            continue;
        if (err->text[n] == '[') /* its number; the text quotes the entry, too */
            n += strcspn(err->text + n, "]: ");
        n += err->text[n] == ']';
        if ((err->text[n] != ':' && strncmp(err->text + n, " must ", 6) != 0) ||
            !has_option(options, fields[i].option))
            continue;
        memcpy(rest, err->text + n, strlen(err->text + n) + 1);
        (void)snprintf(err->text, sizeof(err->text), "--%s%s%.300s", fields[i].option,
                       fields[i].unit, rest);
        return;
    }
}

static int add_variable(json_t *request, const char *item, struct atoll_error *err)
{
    ATOLL_AUTOFREE char *pair = NULL;
    size_t n = strcspn(item, "=");
    const char *value = item[n] ? item + n + 1 : getenv(item);

    if (n == 0 || n >= 256)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                          "--env: \"%.80s\" must be K=V or K", item);
    if (!value)
        return 0; /* K alone and not set here: leave it unset in the sandbox */
    if (asprintf(&pair, "%.*s=%s", (int)n, item, value) < 0)
        return atoll_fail(err, ATOLL_ERR_RESOURCE_EXHAUSTED, ENOMEM, "no memory for the request");
    return atoll_compose_pairs(request, "env", (const char *const[]){pair, NULL}, err);
}

/* Empty lines and lines that begin with "#" mean nothing. */
static int add_env_file(json_t *request, const char *path, struct atoll_error *err)
{
    FILE *f = fopen(path, "re");
    char *line = NULL;
    size_t cap = 0;
    ssize_t n;
    int r = 0;

    if (!f)
        return atoll_fail(err, atoll_error_kind_of_path_errno(errno), errno,
                          "--env-file %.200s: %s", path, strerror(errno));
    while (r == 0 && (n = getline(&line, &cap, f)) >= 0) {
        const char *text = line + strspn(line, " \t");
        line[strcspn(line, "\r\n")] = '\0';
        if (*text && *text != '#')
            r = add_variable(request, text, err);
    }
    if (r == 0 && ferror(f))
        r = atoll_fail_errno(err, EIO, "--env-file %.200s", path);
    free(line);
    (void)fclose(f);
    return r;
}

int atoll_cli_add_env(json_t *request, const struct atoll_cli_env *env, struct atoll_error *err)
{
    int r = 0;

    for (size_t i = 0; r == 0 && i < env->files.n; i++)
        r = add_env_file(request, env->files.items[i], err);
    for (size_t i = 0; r == 0 && i < env->items.n; i++)
        r = add_variable(request, env->items.items[i], err);
    return r;
}

int atoll_cli_add_command(json_t *request, const struct atoll_cli_command_options *options,
                          char *const *argv, struct atoll_error *err)
{
    const struct atoll_client_command command = {
        .size = sizeof(command),
        .argv = argv[0] ? (const char *const *)argv : NULL, /* NULL: that of the image */
        .user = options->user,
        .cwd = options->cwd,
        .timeout_seconds = options->timeout_seconds,
    };
    int r = atoll_cli_add_env(request, &options->env, err);
    return r < 0 ? r : atoll_compose_command(request, &command, err);
}

int atoll_cli_add_detached(json_t *request, const struct atoll_cli_command_options *options,
                           char *const *argv, struct atoll_error *err)
{
    int r = atoll_cli_add_command(request, options, argv, err);
    bool input = options->interactive || options->tty;

    if (r < 0)
        return r;
    if ((input && json_object_set_new(request, "stdin", json_true()) < 0) ||
        (options->tty && json_object_set_new(request, "pty", json_object()) < 0))
        return atoll_fail_errno(err, ENOMEM, "request");
    return 0;
}
