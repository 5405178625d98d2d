/*
 * How it works. Each source fills a slot per option with the text it has and where that text comes
 * from; a later source never replaces an earlier one, so they are asked in the order of their rank.
 * Then every slot that was filled, or has a default, is checked and stored by the kind of its row.
 */
#include "daemon/config.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include "base/fd.h"
#include "base/text.h"
#include "engine/engine.h"

#define FILE_MAX_BYTES (64 * 1024)

enum kind { KIND_PATH, KIND_TEXT, KIND_COUNT, KIND_SIZE, KIND_WAIVE, KIND_LEVEL, KIND_FLAG };

#define AT(member) offsetof(struct atoll_config, member)
static const struct option {
    const char *name; /* --name, and the key in the file */
    const char *env;  /* NULL: none */
    enum kind kind;
    size_t offset;
    uint64_t max;         /* COUNT; size of the array for PATH and TEXT */
    const char *fallback; /* NULL: leave it */
    const char *value, *help;
} options[] = {
    {"state", "ATOLL_STATE", KIND_PATH, AT(state), ATOLL_CONFIG_PATH_MAX, NULL, "DIR",
     "where everything is kept\n(root: /var/lib/atoll, else ~/.local/state/atoll)"},
    {"socket", "ATOLL_SOCKET", KIND_PATH, AT(socket), ATOLL_CONFIG_PATH_MAX, NULL, "PATH",
     "unix socket to serve\n(root: /run/atoll/atoll.sock, else $XDG_RUNTIME_DIR/atoll/atoll.sock)"},
    {"listen", "ATOLL_LISTEN", KIND_TEXT, AT(listen), 256, NULL, "HOST:PORT",
     "TCP address to serve as well; needs the key in DIR/api-key (none)"},
    {"tls-listen", "ATOLL_TLS_LISTEN", KIND_TEXT, AT(tls_listen), 256, NULL, "HOST:PORT",
     "TCP address to serve with TLS, HTTP/1.1 and HTTP/2; needs a key too (none)"},
    {"tls-cert", "ATOLL_TLS_CERT", KIND_PATH, AT(tls_cert), ATOLL_CONFIG_PATH_MAX, NULL, "FILE",
     "its certificate and chain, PEM (one of our own in DIR/tls)"},
    {"tls-key", "ATOLL_TLS_KEY", KIND_PATH, AT(tls_key), ATOLL_CONFIG_PATH_MAX, NULL, "FILE",
     "the key of that certificate, PEM"},
    {"registry", "ATOLL_REGISTRY", KIND_PATH, AT(registry), ATOLL_CONFIG_PATH_MAX, NULL, "DIR",
     "YAML files of environments, agents, tools and prompts\n(registry beside atolld, else the "
     "installed one)"},
    {"drivers", "ATOLL_DRIVERS", KIND_PATH, AT(drivers), ATOLL_CONFIG_PATH_MAX, NULL, "DIR",
     "drivers of interpreters and their manifest.json\n(drivers beside atolld, else the installed "
     "ones)"},
    {"providers", "ATOLL_PROVIDERS", KIND_PATH, AT(providers), ATOLL_CONFIG_PATH_MAX, NULL, "FILE",
     "who makes sandboxes, YAML (DIR/providers.yaml; without one: native)"},
    {"preview-domain", "ATOLL_PREVIEW_DOMAIN", KIND_TEXT, AT(preview_domain), 200, "localhost",
     "NAME", "previews are at http://PORT-SANDBOX.NAME (localhost)"},
    {"host-names", "ATOLL_HOST_NAMES", KIND_TEXT, AT(host_names), 1024, NULL, "LIST",
     "names clients call this daemon by over TCP, beside localhost, addresses\nand the name of "
     "this host (none)"},
    {"pool", "ATOLL_POOL", KIND_COUNT, AT(pool), 1024, "0", "N",
     "sandboxes kept ready for the next create (0), and as many with an\ninterpreter for each "
     "environment that code is run in again and again"},
    {"max-sandboxes", "ATOLL_MAX_SANDBOXES", KIND_COUNT, AT(max_sandboxes), 65536, "4096", "N",
     "most sandboxes at once (4096)"},
    {"tenant-sandboxes", "ATOLL_TENANT_SANDBOXES", KIND_COUNT, AT(tenant_sandboxes), 65536, "0",
     "N", "most sandboxes of one tenant; 0: as many as there may be (0)"},
    {"tenant-creates", "ATOLL_TENANT_CREATES", KIND_COUNT, AT(tenant_creates), 65536, "0", "N",
     "most sandboxes being created at once for one tenant; 0: two for each\nCPU, at least 4, and 64 "
     "elsewhere (0)"},
    {"creates", "ATOLL_CREATES", KIND_COUNT, AT(creates), 65536, "0", "N",
     "most sandboxes being created at once for all tenants, which take turns;\n0: four for each CPU, "
     "at least 8 (0)"},
    {"tenant-memory", "ATOLL_TENANT_MEMORY", KIND_SIZE, AT(tenant_memory), 0, NULL, "SIZE",
     "most memory that the sandboxes of one tenant may have as limits\n(64 times the machine's; no "
     "bound for the tenant default)"},
    {"tenant-cpus", "ATOLL_TENANT_CPUS", KIND_COUNT, AT(tenant_cpus), 1000000000, "0", "N",
     "the same for CPUs (512 times the machine's)"},
    {"tenant-disk", "ATOLL_TENANT_DISK", KIND_SIZE, AT(tenant_disk), 0, NULL, "SIZE",
     "the same for disks (64 times that of the state directory)"},
    {"total-memory", "ATOLL_TOTAL_MEMORY", KIND_SIZE, AT(total_memory), 0, NULL, "SIZE",
     "most memory that all sandboxes may have as limits (no bound)"},
    {"total-cpus", "ATOLL_TOTAL_CPUS", KIND_COUNT, AT(total_cpus), 1000000000, "0", "N",
     "the same for CPUs (no bound)"},
    {"total-disk", "ATOLL_TOTAL_DISK", KIND_SIZE, AT(total_disk), 0, NULL, "SIZE",
     "the same for disks (no bound)"},
    {"tenant-execs", "ATOLL_TENANT_EXECS", KIND_COUNT, AT(tenant_execs), 1000000, "1024", "N",
     "most commands running at once for one tenant (1024)"},
    {"tenant-queue", "ATOLL_TENANT_QUEUE", KIND_COUNT, AT(tenant_queue), 1000000, "1024", "N",
     "requests of one tenant that may wait for their turn (1024)"},
    {"key-rate", "ATOLL_KEY_RATE", KIND_COUNT, AT(key_rate), 1000000, "50", "N",
     "requests a second for a key that is not an admin's, four times as many\nat once; 0: any "
     "number (50)"},
    {"wrong-key-rate", "ATOLL_WRONG_KEY_RATE", KIND_COUNT, AT(wrong_key_rate), 1000000, "10", "N",
     "requests a second without a valid key that get a look, per address (10)"},
    {"e2b-max-hours", "ATOLL_E2B_MAX_HOURS", KIND_COUNT, AT(e2b_max_hours), 8784, "24", "N",
     "longest time to live that clients of E2B may ask for; 0: any (24)"},
    {"journal-max", "ATOLL_JOURNAL_MAX", KIND_SIZE, AT(journal_max_bytes), 0, "64M", "SIZE",
     "output of a command kept for those who do not follow it (64M)"},
    {"journal-sandbox-max", "ATOLL_JOURNAL_SANDBOX_MAX", KIND_SIZE, AT(journal_sandbox_bytes), 0,
     "0", "SIZE",
     "output kept of all commands of a sandbox; of ended ones the oldest gives\nway; 0: an eighth "
     "of journal-total-max (0)"},
    {"journal-tenant-max", "ATOLL_JOURNAL_TENANT_MAX", KIND_SIZE, AT(journal_tenant_bytes), 0, "0",
     "SIZE", "the same of all sandboxes of a tenant; 0: half of journal-total-max (0)"},
    {"journal-total-max", "ATOLL_JOURNAL_TOTAL_MAX", KIND_SIZE, AT(journal_total_bytes), 0, "0",
     "SIZE", "the same in all; 0: an eighth of the disk, 16G at most (0)"},
    {"journal-days", "ATOLL_JOURNAL_DAYS", KIND_COUNT, AT(journal_days), 36500, "7", "N",
     "how long output of ended commands is kept; 0: no end (7)"},
    {"artifacts-max", "ATOLL_ARTIFACTS_MAX", KIND_SIZE, AT(artifacts_max_bytes), 0, "4G", "SIZE",
     "files kept of sandboxes that are gone, in all; the oldest give way. A\nquarter of the disk at "
     "most (4G)"},
    {"artifacts-days", "ATOLL_ARTIFACTS_DAYS", KIND_COUNT, AT(artifacts_days), 36500, "7", "N",
     "how long they are kept; 0: no end (7)"},
    {"waive", "ATOLL_WAIVE", KIND_WAIVE, AT(waived), 0, NULL, "LIST",
     "limits this host cannot give and every sandbox may do without:\nmemory,cpu,pids,disk or all "
     "(none)"},
    {"log-level", "ATOLL_LOG_LEVEL", KIND_LEVEL, AT(log_level), 0, "info", "LEVEL",
     "error, warn, info or debug (info)"},
    {"config", "ATOLL_CONFIG", KIND_PATH, AT(file), ATOLL_CONFIG_PATH_MAX, NULL, "FILE",
     "lines of \"option = value\", options as above without the dashes (none)"},
    {"list-routes", NULL, KIND_FLAG, AT(list_routes), 0, NULL, NULL,
     "show every route of the API with the scope a key needs for it"},
    {"help", NULL, KIND_FLAG, AT(help), 0, NULL, NULL, "show this"},
    {"version", NULL, KIND_FLAG, AT(version), 0, NULL, NULL, "show the version"},
};
#undef AT

#define OPTIONS ATOLL_ARRAY_LEN(options)

/* What was said about each option, and where. */
struct said {
    const char *text[OPTIONS];
    char where[OPTIONS][160];
};

static size_t find_option(const char *name, size_t n)
{
    size_t i = 0;

    while (i < OPTIONS && (strlen(options[i].name) != n || memcmp(options[i].name, name, n) != 0))
        i++;
    return i;
}

static bool is_in_file(const struct option *o)
{
    return o->kind != KIND_FLAG && strcmp(o->name, "config") != 0;
}

/* Sources, the most important first. */

static int read_flags(struct said *said, int argc, char *const *argv, struct atoll_error *err)
{
    for (int i = 1; i < argc; i++) {
        const char *name = argv[i] + 2, *equals = strchr(argv[i], '=');
        size_t n = strncmp(argv[i], "--", 2) != 0 ? 0
                   : equals                       ? (size_t)(equals - name)
                                                  : strlen(name);
        size_t k = n > 0 ? find_option(name, n) : OPTIONS;
        if (k == OPTIONS)
            return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                              "there is no option \"%.80s\"; see atolld --help", argv[i]);
        if (options[k].kind != KIND_FLAG && !equals && ++i == argc)
            return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                              "--%s needs a value: --%s %s", options[k].name, options[k].name,
                              options[k].value);
        said->text[k] = options[k].kind == KIND_FLAG ? "" : equals ? equals + 1 : argv[i];
        (void)snprintf(said->where[k], sizeof(said->where[k]), "--%s", options[k].name);
    }
    return 0;
}

static void read_environment(struct said *said)
{
    for (size_t k = 0; k < OPTIONS; k++) {
        const char *text = options[k].env ? getenv(options[k].env) : NULL;
        if (said->text[k] || !text || !*text)
            continue;
        said->text[k] = text;
        (void)snprintf(said->where[k], sizeof(said->where[k]), "%s", options[k].env);
    }
}

/* Cuts the blanks off both ends, in place. */
static char *trim(char *text)
{
    size_t n;

    text += strspn(text, " \t\r");
    for (n = strlen(text); n > 0 && strchr(" \t\r", text[n - 1]); n--)
        ;
    text[n] = '\0';
    return text;
}

static int read_line(struct said *said, bool *seen, char *line, const char *where,
                     struct atoll_error *err)
{
    char *equals, *key;
    size_t k;

    line = trim(line);
    if (!*line || *line == '#')
        return 0;
    equals = strchr(line, '=');
    if (!equals)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                          "%s: write \"option = value\" (got \"%.60s\")", where, line);
    *equals = '\0';
    key = trim(line);
    k = find_option(key, strlen(key));
    if (k == OPTIONS || !is_in_file(&options[k]))
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                          "%s: there is no option \"%.60s\"; see atolld --help", where, key);
    if (seen[k])
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL, "%s: \"%s\" is here twice",
                          where, key);
    seen[k] = true;
    if (said->text[k])
        return 0;
    said->text[k] = trim(equals + 1);
    (void)snprintf(said->where[k], sizeof(said->where[k]), "%s: %s", where, key);
    return 0;
}

/* `text` must live as long as what was said. */
static int read_lines(struct said *said, const char *path, char *text, struct atoll_error *err)
{
    const char *slash = strrchr(path, '/');
    bool seen[OPTIONS] = {false};
    unsigned number = 0;
    int r = 0;

    for (char *line; r == 0 && (line = strsep(&text, "\n"));) {
        char where[128];
        (void)snprintf(where, sizeof(where), "%.100s:%u", slash ? slash + 1 : path, ++number);
        r = read_line(said, seen, line, where, err);
    }
    return r;
}

static int read_config_file(struct said *said, char *buf, struct atoll_error *err)
{
    size_t k = find_option("config", 6);
    int r;

    if (!said->text[k])
        return 0;
    r = atoll_fd_read_file(AT_FDCWD, said->text[k], buf, FILE_MAX_BYTES);
    if (r < 0)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, -r, "%s: cannot read %.200s: %s",
                          said->where[k], said->text[k], strerror(-r));
    return read_lines(said, said->text[k], buf, err);
}

/* Storing. */

static int refuse(struct atoll_error *err, const char *where, const char *text, const char *what)
{
    return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL, "%s must be %s (got \"%.80s\")",
                      where, what, text);
}

/* Relative to where we were started; the programs we start are elsewhere. */
static int store_path(char *out, size_t cap, const char *text, const char *where,
                      struct atoll_error *err)
{
    ATOLL_AUTOFREE char *cwd = *text == '/' ? NULL : getcwd(NULL, 0);

    if (!*text)
        return refuse(err, where, text, "a path");
    if ((size_t)snprintf(out, cap, "%s%s%s", cwd ? cwd : "", cwd ? "/" : "", text) >= cap)
        return refuse(err, where, text, "a shorter path");
    return 0;
}

static int store_waived(uint32_t *waived, const char *text, const char *where,
                        struct atoll_error *err)
{
    for (const char *p = text; *p;) {
        size_t n = strcspn(p, ", ");
        char word[16] = "";
        if (n < sizeof(word))
            memcpy(word, p, n);
        if (n > 0 && atoll_limit_by_name(word) == 0)
            return refuse(err, where, text, "a list of memory, cpu, pids, disk or all");
        *waived |= n > 0 ? atoll_limit_by_name(word) : 0;
        p += n + strspn(p + n, ", ");
    }
    return 0;
}

static int store(struct atoll_config *config, const struct option *o, const char *text,
                 const char *where, struct atoll_error *err)
{
    void *into = (uint8_t *)config + o->offset;
    uint64_t number;
    char what[64];

    switch (o->kind) {
    case KIND_PATH:
        return store_path(into, o->max, text, where, err);
    case KIND_TEXT:
        return atoll_text_copy(into, o->max, text) < 0 ? refuse(err, where, text, "shorter") : 0;
    case KIND_COUNT:
        (void)snprintf(what, sizeof(what), "a whole number from 0 to %llu",
                       (unsigned long long)o->max);
        if (atoll_text_u64(text, 0, o->max, &number) < 0)
            return refuse(err, where, text, what);
        *(uint32_t *)into = (uint32_t)number;
        return 0;
    case KIND_SIZE:
        return atoll_text_size(text, into) < 0 ? refuse(err, where, text, "a size such as 64M") : 0;
    case KIND_WAIVE:
        return store_waived(into, text, where, err);
    case KIND_LEVEL:
        return atoll_log_parse_level(text, into) < 0
                   ? refuse(err, where, text, "error, warn, info or debug")
                   : 0;
    case KIND_FLAG:
        *(bool *)into = true;
        return 0;
    }
    return -EINVAL;
}

/* The two whose defaults depend on who runs it. */
static int default_paths(struct atoll_config *config, struct atoll_error *err)
{
    const char *home = getenv("HOME"), *runtime = getenv("XDG_RUNTIME_DIR");
    bool root = geteuid() == 0;
    size_t cap = sizeof(config->state);
    int n = 0;

    if (!*config->state && root)
        n = snprintf(config->state, cap, "/var/lib/atoll");
    else if (!*config->state && home && *home == '/')
        n = snprintf(config->state, cap, "%s/.local/state/atoll", home);
    if (!*config->state)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                          "HOME is not set; say with --state DIR where to keep everything");
    if ((size_t)n < cap && !*config->socket) {
        if (root)
            n = snprintf(config->socket, cap, "/run/atoll/atoll.sock");
        else if (runtime && *runtime == '/')
            n = snprintf(config->socket, cap, "%s/atoll/atoll.sock", runtime);
        else
            n = snprintf(config->socket, cap, "%.*s/atoll.sock", (int)cap, config->state);
    }
    return (size_t)n < cap ? 0
                           : atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, ENAMETOOLONG,
                                        "the path of the state directory or socket is too long");
}

int atoll_config_load(struct atoll_config *config, int argc, char *const *argv,
                      struct atoll_error *err)
{
    static char file[FILE_MAX_BYTES]; /* values point into it until they are stored */
    struct said said = {0};
    int r = read_flags(&said, argc, argv, err);

    *config = (struct atoll_config){0};
    if (r < 0)
        return r;
    read_environment(&said);
    r = read_config_file(&said, file, err);
    for (size_t k = 0; r == 0 && k < OPTIONS; k++) {
        const char *text = said.text[k] ? said.text[k] : options[k].fallback;
        if (text)
            r = store(config, &options[k], text, said.where[k], err);
    }
    return r < 0 ? r : default_paths(config, err);
}

void atoll_config_print_help(void)
{
    printf(
        "Usage: atolld [OPTION]...\n"
        "The Atoll daemon: hands out sandboxes, runs commands in them, serves the HTTP API.\n\n");
    for (size_t k = 0; k < OPTIONS; k++) {
        const struct option *o = &options[k];
        const char *line = o->help;
        char flag[40];
        (void)snprintf(flag, sizeof(flag), "--%s%s%s", o->name, o->value ? " " : "",
                       o->value ? o->value : "");
        for (size_t n = strcspn(line, "\n");; n = strcspn(line, "\n")) {
            printf("  %-22s %.*s\n", line == o->help ? flag : "", (int)n, line);
            if (line[n] == '\0')
                break;
            line += n + 1;
        }
    }
    printf(
        "\nEvery option can also be set in the environment (ATOLL_STATE for --state, and so on)\n"
        "or in the configuration file. Flags come first, then the environment, then the file.\n");
}
