/*
 * How it works. Each source (flags, environment, file) fills one entry per option with the text and
 * its origin. The sources are read in the order of precedence, and a later one never replaces an
 * entry. Then every entry that was filled, or has a default, is checked and stored according to the
 * kind of its option.
 */
#include "daemon/config.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include "base/fd.h"
#include "base/text.h"
#include "engine/engine.h"
#include "engine/provider/providers.h"
#include "engine/state/retention.h"
#include "network/policy.h"
#include "sandbox/host_folders.h"

#define FILE_MAX_BYTES (64 * 1024)

enum kind {
    KIND_PATH,
    KIND_TEXT,
    KIND_COUNT,
    KIND_SIZE,
    KIND_WAIVE,
    KIND_LEVEL,
    KIND_FLAG,
    KIND_MODES,
    KIND_NUMBERS,
    KIND_TARGETS,
    KIND_DISKS,
    KIND_FOLDERS
};

#define AT(member) offsetof(struct atoll_config, member)
static const struct option {
    const char *name; /* --name, and the key in the file */
    const char *env;  /* NULL: none */
    enum kind kind;
    size_t offset;
    uint64_t max;         /* largest COUNT; size of the array for texts */
    const char *fallback; /* default; NULL: the field stays as it is */
    const char *value, *help;
} options[] = {
    {"state", "ATOLL_STATE", KIND_PATH, AT(state), ATOLL_CONFIG_PATH_MAX, NULL, "DIR",
     "state directory\n(root: /var/lib/atoll, else ~/.local/state/atoll)"},
    {"socket", "ATOLL_SOCKET", KIND_PATH, AT(socket), ATOLL_CONFIG_PATH_MAX, NULL, "PATH",
     "unix socket to listen on\n(root: /run/atoll/atoll.sock, else $XDG_RUNTIME_DIR/atoll/atoll.sock)"},
    {"listen", "ATOLL_LISTEN", KIND_TEXT, AT(listen), 256, NULL, "HOST:PORT",
     "TCP address to listen on; clients need an API key (DIR/api-key) (none)"},
    {"tls-listen", "ATOLL_TLS_LISTEN", KIND_TEXT, AT(tls_listen), 256, NULL, "HOST:PORT",
     "TCP address to listen on with TLS; clients need an API key (none)"},
    {"tls-cert", "ATOLL_TLS_CERT", KIND_PATH, AT(tls_cert), ATOLL_CONFIG_PATH_MAX, NULL, "FILE",
     "certificate and chain for --tls-listen, PEM (self-signed, in DIR/tls)"},
    {"tls-key", "ATOLL_TLS_KEY", KIND_PATH, AT(tls_key), ATOLL_CONFIG_PATH_MAX, NULL, "FILE",
     "private key of that certificate, PEM"},
    {"tls-names", "ATOLL_TLS_NAMES", KIND_TEXT, AT(tls_names), 512, NULL, "NAME,...",
     "further names of the daemon's own certificate, such as *.example.com (none)"},
    {"ssh-listen", "ATOLL_SSH_LISTEN", KIND_TEXT, AT(ssh_listen), 256, NULL, "HOST:PORT",
     "TCP address at which sandboxes are reached by SSH, with tokens (none)"},
    {"ssh-host", "ATOLL_SSH_HOST", KIND_TEXT, AT(ssh_host), 256, NULL, "NAME",
     "host name that clients use for --ssh-listen\n(its HOST; for 0.0.0.0 and [::] the one of the API)"},
    {"registry", "ATOLL_REGISTRY", KIND_PATH, AT(registry), ATOLL_CONFIG_PATH_MAX, NULL, "DIR",
     "directory of environments, agents, tools and prompts, YAML\n(registry beside atolld, else the "
     "installed one)"},
    {"pull-request-hook", "ATOLL_PULL_REQUEST_HOOK", KIND_PATH, AT(pull_request_hook),
     ATOLL_CONFIG_PATH_MAX, NULL, "FILE",
     "program that opens pull requests of tasks; it gets JSON, and prints the URL\n(none: only their "
     "text is written)"},
    {"drivers", "ATOLL_DRIVERS", KIND_PATH, AT(drivers), ATOLL_CONFIG_PATH_MAX, NULL, "DIR",
     "directory of interpreter drivers and their manifest.json\n(drivers beside atolld, else the installed "
     "ones)"},
    {"providers", "ATOLL_PROVIDERS", KIND_PATH, AT(providers), ATOLL_CONFIG_PATH_MAX, NULL, "FILE",
     "providers of sandboxes, YAML (DIR/providers.yaml; without it: native)"},
    {"preview-domain", "ATOLL_PREVIEW_DOMAIN", KIND_TEXT, AT(preview_domain), 200, "localhost",
     "NAME", "previews are at http://PORT-SANDBOX.NAME (localhost)"},
    {"host-names", "ATOLL_HOST_NAMES", KIND_TEXT, AT(host_names), 1024, NULL, "LIST",
     "host names of this daemon that clients use over TCP, in addition to\nlocalhost, IP addresses and the name of "
     "this host (none)"},
    {"open-loopback", "ATOLL_OPEN_LOOPBACK", KIND_COUNT, AT(open_loopback), 1, "0", "0|1",
     "1: programs of this host that root or the daemon's user runs need no key\nover TCP (0)"},
    {"cors-origins", "ATOLL_CORS_ORIGINS", KIND_TEXT, AT(cors_origins), 1024, NULL, "LIST",
     "origins whose pages may use the API, such as https://app.example; *: all (none)"},
    {"pool", "ATOLL_POOL", KIND_COUNT, AT(pool), 1024, "0", "N",
     "sandboxes kept ready in the pool, and as many of each kind (template, disk,\nrunning "
     "interpreter) that is requested repeatedly (0)"},
    {"pool-max", "ATOLL_POOL_MAX", KIND_COUNT, AT(pool_max), 65536, "256", "N",
     "maximum number of sandboxes that environments with a pool keep ready (256)"},
    {"pool-memory", "ATOLL_POOL_MEMORY", KIND_SIZE, AT(pool_memory), 0, NULL, "SIZE",
     "what they may use of the memory together (a quarter of the host's)"},
    {"max-sandboxes", "ATOLL_MAX_SANDBOXES", KIND_COUNT, AT(max_sandboxes), 65536, "4096", "N",
     "maximum number of sandboxes (4096)"},
    {"tenant-sandboxes", "ATOLL_TENANT_SANDBOXES", KIND_COUNT, AT(tenant_sandboxes), 65536, "0",
     "N", "maximum number of sandboxes of one tenant; 0: --max-sandboxes (0)"},
    {"tenant-creates", "ATOLL_TENANT_CREATES", KIND_COUNT, AT(tenant_creates), 65536, "0", "N",
     "maximum creates in progress for one tenant; 0: two per CPU, at least 4,\non this host, and 64 "
     "on remote providers (0)"},
    {"creates", "ATOLL_CREATES", KIND_COUNT, AT(creates), 65536, "0", "N",
     "maximum creates in progress for all tenants, which take turns;\n0: four per CPU, "
     "at least 8 (0)"},
    {"tenant-memory", "ATOLL_TENANT_MEMORY", KIND_SIZE, AT(tenant_memory), 0, NULL, "SIZE",
     "maximum sum of the memory limits of one tenant's sandboxes\n(64 times the host's memory; unlimited "
     "for the tenant default)"},
    {"tenant-cpus", "ATOLL_TENANT_CPUS", KIND_COUNT, AT(tenant_cpus), 1000000000, "0", "N",
     "the same for CPUs (512 times the host's CPUs)"},
    {"tenant-disk", "ATOLL_TENANT_DISK", KIND_SIZE, AT(tenant_disk), 0, NULL, "SIZE",
     "the same for disks (64 times the disk of the state directory)"},
    {"total-memory", "ATOLL_TOTAL_MEMORY", KIND_SIZE, AT(total_memory), 0, NULL, "SIZE",
     "maximum sum of the memory limits of all sandboxes (unlimited)"},
    {"total-cpus", "ATOLL_TOTAL_CPUS", KIND_COUNT, AT(total_cpus), 1000000000, "0", "N",
     "the same for CPUs (unlimited)"},
    {"total-disk", "ATOLL_TOTAL_DISK", KIND_SIZE, AT(total_disk), 0, NULL, "SIZE",
     "the same for disks (unlimited)"},
    {"tenant-execs", "ATOLL_TENANT_EXECS", KIND_COUNT, AT(tenant_execs), 1000000, "1024", "N",
     "maximum running commands of one tenant (1024)"},
    {"tenant-secrets", "ATOLL_TENANT_SECRETS", KIND_COUNT, AT(tenant_secrets), 1000, "100", "N",
     "maximum number of secrets of one tenant; 0: none can be made (100)"},
    {"tenant-queue", "ATOLL_TENANT_QUEUE", KIND_COUNT, AT(tenant_queue), 1000000, "1024", "N",
     "maximum queued requests of one tenant (1024)"},
    {"key-rate", "ATOLL_KEY_RATE", KIND_COUNT, AT(key_rate), 1000000, "50", "N",
     "requests per second for a key that is not an admin's; bursts of four\ntimes as many; 0: unlimited "
     "(50)"},
    {"wrong-key-rate", "ATOLL_WRONG_KEY_RATE", KIND_COUNT, AT(wrong_key_rate), 1000000, "10", "N",
     "requests per second without a valid key from one address; further ones\n"
     "are answered 429 (10)"},
    {"journal-max", "ATOLL_JOURNAL_MAX", KIND_SIZE, AT(journal_max_bytes), 0, "64M", "SIZE",
     "output kept per command for clients that read it later (64M)"},
    {"journal-sandbox-max", "ATOLL_JOURNAL_SANDBOX_MAX", KIND_SIZE, AT(journal_sandbox_bytes), 0,
     "0", "SIZE",
     "output kept per sandbox; output of the oldest ended commands is\ndropped first; 0: an eighth "
     "of journal-total-max (0)"},
    {"journal-tenant-max", "ATOLL_JOURNAL_TENANT_MAX", KIND_SIZE, AT(journal_tenant_bytes), 0, "0",
     "SIZE", "the same per tenant; 0: half of journal-total-max (0)"},
    {"journal-total-max", "ATOLL_JOURNAL_TOTAL_MAX", KIND_SIZE, AT(journal_total_bytes), 0, "0",
     "SIZE", "the same in total; 0: an eighth of the disk, 16G at most (0)"},
    {"journal-days", "ATOLL_JOURNAL_DAYS", KIND_COUNT, AT(journal_days), 36500, "7", "N",
     "days that output of ended commands is kept; 0: unlimited (7)"},
    {"artifacts-max", "ATOLL_ARTIFACTS_MAX", KIND_SIZE, AT(artifacts_max_bytes), 0, "4G", "SIZE",
     "total size of artifacts of destroyed sandboxes; the oldest are dropped\nfirst; a quarter of the disk at "
     "most (4G)"},
    {"artifacts-days", "ATOLL_ARTIFACTS_DAYS", KIND_COUNT, AT(artifacts_days), 36500, "7", "N",
     "days that artifacts are kept; 0: unlimited (7)"},
    {"template-cache-max", "ATOLL_TEMPLATE_CACHE_MAX", KIND_SIZE, AT(template_cache_max_bytes), 0,
     "10G", "SIZE",
     "size of layers that are kept only for later builds; the least recently used go\nfirst (10G)"},
    {"build-step-max", "ATOLL_BUILD_STEP_MAX", KIND_SIZE, AT(build_step_max_bytes), 0, "32G",
     "SIZE", "what one step of a build may write; 0: unlimited (32G)"},
    {"build-caches-max", "ATOLL_BUILD_CACHES_MAX", KIND_SIZE, AT(build_caches_max_bytes), 0, "10G",
     "SIZE",
     "size of all caches of RUN --mount=type=cache; the least recently used are emptied\nfirst (10G)"},
    {"template-history", "ATOLL_TEMPLATE_HISTORY", KIND_COUNT, AT(template_history), 1000, "10",
     "N", "versions without a tag that a template keeps (10)"},
    {"tenant-snapshots", "ATOLL_TENANT_SNAPSHOTS", KIND_COUNT, AT(tenant_snapshots), 100000, "256",
     "N", "snapshots that a tenant may have; 0: unlimited (256)"},
    {"tenant-snapshot-bytes", "ATOLL_TENANT_SNAPSHOT_BYTES", KIND_SIZE, AT(tenant_snapshot_bytes),
     0, "0", "SIZE", "size of the layers that only snapshots of a tenant have; 0: unlimited (0)"},
    {"snapshot-days", "ATOLL_SNAPSHOT_DAYS", KIND_NUMBERS, AT(snapshot_days), 4096, NULL, "LIST",
     "days that snapshots are kept that no sandbox uses; for one tenant: TENANT=N,\nsuch as 30,acme=365 "
     "(unlimited)"},
    {"snapshot-keep", "ATOLL_SNAPSHOT_KEEP", KIND_NUMBERS, AT(snapshot_keep), 4096, NULL, "LIST",
     "number of snapshots of a tenant beyond which the oldest that no sandbox uses are\nremoved; for one "
     "tenant: TENANT=N (unlimited)"},
    {"ended-max", "ATOLL_ENDED_MAX", KIND_COUNT, AT(ended_max), 1000000, "10000", "N",
     "records of ended sandboxes that are kept; 0: none (10000)"},
    {"ended-days", "ATOLL_ENDED_DAYS", KIND_COUNT, AT(ended_days), 36500, "7", "N",
     "days that they are kept; 0: unlimited (7)"},
    {"ended-output-max", "ATOLL_ENDED_OUTPUT_MAX", KIND_SIZE, AT(ended_output_bytes), 0, "1G",
     "SIZE", "output of their commands that is kept; 0: none; 1/32 of the disk at\nmost (1G)"},
    {"disks", "ATOLL_DISKS", KIND_DISKS, AT(disks), 0, "auto", "KIND",
     "disks of native sandboxes: cow, which are copied at once; plain: in memory, or an\nimage if half the "
     "memory is too small; auto: cow instead of the image (auto)"},
    {"host-folders", "ATOLL_HOST_FOLDERS", KIND_FOLDERS, AT(host_folders), 8192, NULL, "LIST",
     "folders of this host that native sandboxes may mount, and those below them:\nPATH[:cow|:ro|:rw][,TENANT...], "
     "several separated by ; (none)"},
    {"io-mbps", "ATOLL_IO_MBPS", KIND_COUNT, AT(io_mbps), 1048576, "0", "N",
     "default limit on the disk bandwidth of a sandbox, in MiB a second for reads\nand as many for "
     "writes; 0: unlimited (0)"},
    {"network-max", "ATOLL_NETWORK_MAX", KIND_MODES, AT(network_max), 4096, "bridge", "LIST",
     "widest network mode of sandboxes: none, isolated or bridge; for one tenant:\nTENANT=MODE, "
     "such as bridge,guests=none (bridge)"},
    {"network-deny", "ATOLL_NETWORK_DENY", KIND_TARGETS, AT(network_deny), 16384, NULL, "LIST",
     "domains, addresses and ranges that no sandbox reaches, such as\n*.example.org,203.0.113.0/24:25 "
     "(none)"},
    {"network-internal", "ATOLL_NETWORK_INTERNAL", KIND_TARGETS, AT(network_internal), 16384, NULL,
     "LIST",
     "internal addresses that sandboxes may reach if their policy allows it:\nprivate ranges, this "
     "host, such as 10.0.0.5:443 (none)"},
    {"cache", "ATOLL_CACHE", KIND_SIZE, AT(cache_max_bytes), 0, NULL, "SIZE",
     "size of downloads that never change (packages) which are kept for all\nsandboxes, such as 10G (none)"},
    {"cache-table", "ATOLL_CACHE_TABLE", KIND_PATH, AT(cache_table), ATOLL_CONFIG_PATH_MAX, NULL,
     "FILE", "which downloads these are, YAML (downloads.yaml in the registry)"},
    {"image-mirror", "ATOLL_IMAGE_MIRROR", KIND_TEXT, AT(image_mirrors), 4096, NULL, "LIST",
     "mirrors of registries, HOST=URL, such as docker.io=https://mirror.example (none)"},
    {"image-insecure", "ATOLL_IMAGE_INSECURE", KIND_TEXT, AT(image_insecure), 4096, NULL, "LIST",
     "registries that may use http or any certificate, HOST[:PORT]; those at loopback\naddresses always may (none)"},
    {"image-logins", "ATOLL_IMAGE_LOGINS", KIND_PATH, AT(image_logins), ATOLL_CONFIG_PATH_MAX, NULL,
     "FILE", "logins of registries for all tenants: a config.json of Docker (none)"},
    {"image-max", "ATOLL_IMAGE_MAX", KIND_SIZE, AT(image_max_bytes), 0, "32G", "SIZE",
     "maximum size of the layers of an image, as the registry has them (32G)"},
    {"tool-interceptor", "ATOLL_TOOL_INTERCEPTOR", KIND_PATH, AT(tool_interceptor),
     ATOLL_CONFIG_PATH_MAX, NULL, "FILE",
     "program that decides about every call of a tool, of all tenants (none)"},
    {"tool-interceptor-seconds", "ATOLL_TOOL_INTERCEPTOR_SECONDS", KIND_COUNT,
     AT(tool_interceptor_s), 60, "10", "N", "how long it may take, 1 to 60 (10)"},
    {"tool-interceptor-allow", "ATOLL_TOOL_INTERCEPTOR_ALLOW", KIND_COUNT,
     AT(tool_interceptor_allow), 1, "0", "0|1",
     "1: calls go on if it fails or answers wrongly; 0: they are refused (0)"},
    {"webhook-internal", "ATOLL_WEBHOOK_INTERNAL", KIND_TEXT, AT(webhook_internal), 4096, NULL,
     "LIST",
     "servers that webhooks of tenants may reach although their address is not public,\nHOST[:PORT] "
     "(none)"},
    {"waive", "ATOLL_WAIVE", KIND_WAIVE, AT(waived), 0, NULL, "LIST",
     "limits that every sandbox may lack if this host cannot enforce them:\nmemory,cpu,pids,disk,io or all "
     "(none)"},
    {"log-level", "ATOLL_LOG_LEVEL", KIND_LEVEL, AT(log_level), 0, "info", "LEVEL",
     "error, warn, info or debug (info)"},
    {"config", "ATOLL_CONFIG", KIND_PATH, AT(file), ATOLL_CONFIG_PATH_MAX, NULL, "FILE",
     "configuration file: lines of \"option = value\", options as above\nwithout the dashes (none)"},
    {"list-routes", NULL, KIND_FLAG, AT(list_routes), 0, NULL, NULL,
     "print every route of the API with the scope it needs, and exit"},
    {"new-secret-key", NULL, KIND_FLAG, AT(new_secret_key), 0, NULL, NULL,
     "if secret.key is lost: delete what was encrypted with it, and make a new one"},
    {"help", NULL, KIND_FLAG, AT(help), 0, NULL, NULL, "show this"},
    {"version", NULL, KIND_FLAG, AT(version), 0, NULL, NULL, "print the version and exit"},
};

#define OPTIONS_MAX (ATOLL_ARRAY_LEN(options) + ATOLL_FACADE_OPTIONS_MAX)

/* Walks the options above and then those of facades; false at the end. */
static bool option_at(size_t k, struct option *ret)
{
    const struct atoll_facade_option *o;

    if (k < ATOLL_ARRAY_LEN(options)) {
        *ret = options[k];
        return true;
    }
    k -= ATOLL_ARRAY_LEN(options);
    o = k < ATOLL_FACADE_OPTIONS_MAX ? atoll_facade_option_at(k) : NULL;
    if (!o)
        return false;
    *ret =
        (struct option){o->name, o->env,      KIND_COUNT, AT(facade_options) + k * sizeof(uint32_t),
                        o->max,  o->fallback, "N",        o->help};
    return true;
}
#undef AT

/* The text given for each option, and where it was given. */
struct given {
    const char *text[OPTIONS_MAX];
    char where[OPTIONS_MAX][160];
};

static bool find_option(const char *name, size_t n, size_t *ret_k, struct option *ret)
{
    for (*ret_k = 0; option_at(*ret_k, ret); ++*ret_k)
        if (strlen(ret->name) == n && memcmp(ret->name, name, n) == 0)
            return true;
    return false;
}

static bool is_in_file(const struct option *o)
{
    return o->kind != KIND_FLAG && strcmp(o->name, "config") != 0;
}

/* Sources, highest precedence first. */

static int read_flags(struct given *given, int argc, char *const *argv, struct atoll_error *err)
{
    for (int i = 1; i < argc; i++) {
        const char *name = argv[i] + 2, *equals = strchr(argv[i], '=');
        size_t n = strncmp(argv[i], "--", 2) != 0 ? 0
                   : equals                       ? (size_t)(equals - name)
                                                  : strlen(name);
        struct option o;
        size_t k;
        if (n == 0 || !find_option(name, n, &k, &o))
            return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                              "there is no option \"%.80s\"; see atolld --help", argv[i]);
        if (o.kind != KIND_FLAG && !equals && ++i == argc)
            return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                              "--%s needs a value: --%s %s", o.name, o.name, o.value);
        given->text[k] = o.kind == KIND_FLAG ? "" : equals ? equals + 1 : argv[i];
        (void)snprintf(given->where[k], sizeof(given->where[k]), "--%s", o.name);
    }
    return 0;
}

static void read_environment(struct given *given)
{
    struct option o;

    for (size_t k = 0; option_at(k, &o); k++) {
        const char *text = o.env ? getenv(o.env) : NULL;
        if (given->text[k] || !text || !*text)
            continue;
        given->text[k] = text;
        (void)snprintf(given->where[k], sizeof(given->where[k]), "%s", o.env);
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

static int read_line(struct given *given, bool *seen, char *line, const char *where,
                     struct atoll_error *err)
{
    char *equals, *key;
    struct option o;
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
    if (!find_option(key, strlen(key), &k, &o) || !is_in_file(&o))
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                          "%s: there is no option \"%.60s\"; see atolld --help", where, key);
    if (seen[k])
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL, "%s: \"%s\" is here twice",
                          where, key);
    seen[k] = true;
    if (given->text[k])
        return 0;
    given->text[k] = trim(equals + 1);
    (void)snprintf(given->where[k], sizeof(given->where[k]), "%s: %s", where, key);
    return 0;
}

/* Values point into `text`, which must outlive `given`. */
static int read_lines(struct given *given, const char *path, char *text, struct atoll_error *err)
{
    const char *slash = strrchr(path, '/');
    bool seen[OPTIONS_MAX] = {false};
    unsigned number = 0;
    int r = 0;

    for (char *line; r == 0 && (line = strsep(&text, "\n"));) {
        char where[128];
        (void)snprintf(where, sizeof(where), "%.100s:%u", slash ? slash + 1 : path, ++number);
        r = read_line(given, seen, line, where, err);
    }
    return r;
}

static int read_config_file(struct given *given, char *buf, struct atoll_error *err)
{
    struct option o;
    size_t k;
    int r;

    if (!find_option("config", 6, &k, &o) || !given->text[k])
        return 0;
    r = atoll_fd_read_file(AT_FDCWD, given->text[k], buf, FILE_MAX_BYTES);
    if (r < 0)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, -r, "%s: cannot read %.200s: %s",
                          given->where[k], given->text[k], strerror(-r));
    return read_lines(given, given->text[k], buf, err);
}

/* Storing. */

static int refuse(struct atoll_error *err, const char *where, const char *text, const char *what)
{
    return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL, "%s must be %s (got \"%.80s\")",
                      where, what, text);
}

/* Makes a path absolute: the programs the daemon starts have another working directory. */
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

/* The words, in the order of the enum. */
static int parse_disks(const char *text, enum atoll_disks *ret)
{
    static const char *const words[] = {"auto", "cow", "plain"};

    for (size_t i = 0; i < ATOLL_ARRAY_LEN(words); i++)
        if (strcmp(text, words[i]) == 0) {
            *ret = (enum atoll_disks)i;
            return 0;
        }
    return -EINVAL;
}

static int store(struct atoll_config *config, const struct option *o, const char *text,
                 const char *where, struct atoll_error *err)
{
    void *into = (uint8_t *)config + o->offset;
    struct atoll_host_folders folders;
    enum atoll_network mode;
    json_t *list;
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
    case KIND_MODES:
        if (atoll_network_most(text, "", &mode) < 0)
            return refuse(err, where, text,
                          "none, isolated or bridge, and TENANT=MODE for single tenants");
        return atoll_text_copy(into, o->max, text) < 0 ? refuse(err, where, text, "shorter") : 0;
    case KIND_NUMBERS:
        if (atoll_retention(text, "", (uint32_t[]){0}) < 0)
            return refuse(err, where, text, "a whole number, and TENANT=N for single tenants");
        return atoll_text_copy(into, o->max, text) < 0 ? refuse(err, where, text, "shorter") : 0;
    case KIND_TARGETS:
        if (atoll_network_list_parse(text, &list, err) < 0)
            return atoll_wrap(err, "%s", where);
        json_decref(list);
        return atoll_text_copy(into, o->max, text) < 0 ? refuse(err, where, text, "shorter") : 0;
    case KIND_LEVEL:
        return atoll_log_parse_level(text, into) < 0
                   ? refuse(err, where, text, "error, warn, info or debug")
                   : 0;
    case KIND_DISKS:
        return parse_disks(text, into) < 0 ? refuse(err, where, text, "auto, cow or plain") : 0;
    case KIND_FOLDERS:
        if (atoll_host_folders_parse(text, &folders, err) < 0)
            return atoll_wrap(err, "%s", where);
        return atoll_text_copy(into, o->max, text) < 0 ? refuse(err, where, text, "shorter") : 0;
    case KIND_FLAG:
        *(bool *)into = true;
        return 0;
    }
    return -EINVAL;
}

/* Defaults that depend on the user who runs the daemon. */
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
                          "HOME is not set; set the state directory with --state DIR");
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
    struct given given = {0};
    struct option o;
    int r = read_flags(&given, argc, argv, err);

    *config = (struct atoll_config){0};
    if (r < 0)
        return r;
    read_environment(&given);
    r = read_config_file(&given, file, err);
    for (size_t k = 0; r == 0 && option_at(k, &o); k++) {
        const char *text = given.text[k] ? given.text[k] : o.fallback;
        if (text)
            r = store(config, &o, text, given.where[k], err);
    }
    return r < 0 ? r : default_paths(config, err);
}

void atoll_config_print_help(void)
{
    struct option o;

    printf("Usage: atolld [OPTION]...\n"
           "The Atoll daemon: makes sandboxes, runs commands in them, serves the HTTP API.\n\n");
    for (size_t k = 0; option_at(k, &o); k++) {
        const char *line = o.help;
        char flag[40];
        (void)snprintf(flag, sizeof(flag), "--%s%s%s", o.name, o.value ? " " : "",
                       o.value ? o.value : "");
        for (size_t n = strcspn(line, "\n");; n = strcspn(line, "\n")) {
            printf("  %-22s %.*s\n", line == o.help ? flag : "", (int)n, line);
            if (line[n] == '\0')
                break;
            line += n + 1;
        }
    }
    printf(
        "\nEvery option can also be set in the environment (ATOLL_STATE for --state, and so on)\n"
        "or in the configuration file. Flags override the environment, which overrides the file.\n");
}
