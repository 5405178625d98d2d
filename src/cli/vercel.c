/*
 * `atoll vercel env`: variables with which programs for Vercel Sandbox use this daemon.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "cli/client.h"
#include "cli/place.h"

#define PRELOAD "clients/vercel/vercel.mjs"
#define TEAM "team_atoll"
#define PROJECT "prj_atoll"
#define RUNTIME_TEMPLATE "env-vercel-node24" /* of the default runtime */
/* Head and claims of an OIDC token, in base64 of URLs: {"alg":"none"} and {"owner_id":"team_atoll",
 * "project_id":"prj_atoll","exp":4102444800}, which is the year 2100. The key takes the place of the signature. */
#define OIDC_HEAD "eyJhbGciOiJub25lIn0"
#define OIDC_CLAIMS                                                \
    "eyJvd25lcl9pZCI6InRlYW1fYXRvbGwiLCJwcm9qZWN0X2lkIjoicHJqX2F0" \
    "b2xsIiwiZXhwIjo0MTAyNDQ0ODAwfQ"

struct options {
    struct atoll_cli_common common;
    const char *url, *tenant;
    bool no_preload;
};

static const struct atoll_cli_option options_table[] = {
    {"url", 0, ATOLL_CLI_TEXT, offsetof(struct options, url), "URL",
     "where programs reach the daemon (default: ATOLL_URL, or the address of `atoll up`)", NULL},
    {"tenant", 't', ATOLL_CLI_TEXT, offsetof(struct options, tenant), "NAME",
     "tenant of the key that is created if ATOLL_API_KEY is not set (default: default)", NULL},
    {"no-preload", 0, ATOLL_CLI_FLAG, offsetof(struct options, no_preload), NULL,
     "leave NODE_OPTIONS as it is: DNS leads Vercel's names to the daemon", NULL},
    ATOLL_CLI_COMMON(struct options),
    {0},
};

/* The file beside the program, as in a build directory, or where it is installed. */
static int find_preload(char *out, size_t cap, struct atoll_error *err)
{
    static const char *const places[] = {"", "../share/atoll/"};
    char own[ATOLL_CLI_PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", own, sizeof(own) - 1);
    char *slash;

    own[n > 0 ? n : 0] = '\0';
    slash = strrchr(own, '/');
    for (size_t i = 0; slash && i < ATOLL_ARRAY_LEN(places); i++)
        if ((size_t)snprintf(out, cap, "%.*s/%s" PRELOAD, (int)(slash - own), own, places[i]) <
                cap &&
            access(out, R_OK) == 0)
            return 0;
    (void)snprintf(out, cap, "%s/" PRELOAD, ATOLL_DATA_DIR);
    if (access(out, R_OK) == 0)
        return 0;
    return atoll_fail(err, ATOLL_ERR_NOT_FOUND, ENOENT,
                      "%s is not installed; run `make install`, or use --no-preload", out);
}

static int find_url(const struct options *o, char *out, size_t cap, struct atoll_error *err)
{
    const char *given = o->url ? o->url : getenv("ATOLL_URL");
    struct atoll_cli_place place;
    struct atoll_cli_daemon daemon;
    int r;

    if (given && *given) {
        (void)snprintf(out, cap, "%s", given);
        return 0;
    }
    r = atoll_cli_place_find(&place, NULL, NULL, err);
    if (r < 0)
        return r;
    daemon = atoll_cli_place_daemon(&place);
    if (daemon.pid == 0 || !*daemon.listen)
        return atoll_fail(err, ATOLL_ERR_FAILED_PRECONDITION, ENOTCONN,
                          "the TCP address of the daemon is not known: run `atoll up`, or name it "
                          "with --url");
    (void)snprintf(out, cap, "http://%s", daemon.listen);
    return 0;
}

static int find_key(struct atoll_cli *cli, const struct options *o, char *out, size_t cap,
                    struct atoll_error *err)
{
    const char *given = getenv("ATOLL_API_KEY");
    ATOLL_AUTOJSON json_t *request = NULL, *reply = NULL;
    int r;

    if (given && *given && !o->tenant) {
        (void)snprintf(out, cap, "%s", given);
        return 0;
    }
    request =
        json_pack("{s:s, s:s}", "tenant", o->tenant ? o->tenant : "default", "scope", "write");
    if (!request)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                          "the name of the tenant is not valid UTF-8");
    r = atoll_cli_call(cli, "POST", "/api/keys", request, &reply, err);
    if (r == 0)
        (void)snprintf(out, cap, "%s", atoll_link_text(reply, "key", ""));
    return r;
}

/* For a shell, in single quotes. */
static void print_quoted(const char *value)
{
    (void)putchar('\'');
    for (; *value; value++)
        if (*value == '\'')
            (void)fputs("'\\''", stdout);
        else
            (void)putchar(*value);
    (void)putchar('\'');
}

static void print_line(const char *name, const char *value)
{
    (void)printf("export %s=", name);
    print_quoted(value);
    (void)putchar('\n');
}

/* Node reads words of NODE_OPTIONS, in which double quotes and backslashes are those of C. */
static void write_import(const char *path, char *out, size_t cap)
{
    size_t n = (size_t)snprintf(out, cap, "--import=\"");

    for (; *path && n + 4 < cap; path++) {
        if (*path == '"' || *path == '\\')
            out[n++] = '\\';
        out[n++] = *path;
    }
    (void)snprintf(out + n, cap - n, "\"");
}

/* Added once to what is there. */
static void print_preload(const char *import)
{
    (void)fputs("case \"${NODE_OPTIONS-}\" in *", stdout);
    print_quoted(import);
    (void)fputs("*) ;; *) export NODE_OPTIONS=\"${NODE_OPTIONS:+$NODE_OPTIONS }\"", stdout);
    print_quoted(import);
    (void)puts(" ;; esac");
}

static int print_env(struct atoll_cli *cli, const char *preload, const char *url, const char *key,
                     struct atoll_error *err)
{
    char oidc[512], import[2 * ATOLL_CLI_PATH_MAX + 16];
    const char *const rows[][2] = {
        {"ATOLL_URL", url},          {"ATOLL_API_KEY", key},
        {"VERCEL_TOKEN", key},       {"VERCEL_AUTH_TOKEN", key},
        {"VERCEL_TEAM_ID", TEAM},    {"VERCEL_PROJECT_ID", PROJECT},
        {"VERCEL_OIDC_TOKEN", oidc}, {"VERCEL_TELEMETRY_DISABLED", "1"},
    };
    ATOLL_AUTOJSON json_t *object = json_object();

    (void)snprintf(oidc, sizeof(oidc), OIDC_HEAD "." OIDC_CLAIMS ".%s", key);
    write_import(preload, import, sizeof(import));
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(rows); i++)
        if (!cli->json)
            print_line(rows[i][0], rows[i][1]);
        else if (json_object_set_new(object, rows[i][0], json_string(rows[i][1])) < 0)
            return atoll_fail_errno(err, ENOMEM, "answer");
    if (!cli->json && *preload)
        print_preload(import);
    if (!cli->json)
        return ATOLL_CLI_OK;
    if (*preload && json_object_set_new(object, "NODE_OPTIONS", json_string(import)) < 0)
        return atoll_fail_errno(err, ENOMEM, "answer");
    return atoll_cli_print_json(object, err);
}

/* For people: the variables are for a shell. Whether the runtime is there is not known of a daemon that
 * does not answer. */
static void suggest_runtimes(struct atoll_cli *cli)
{
    ATOLL_AUTOJSON json_t *reply = NULL;
    struct atoll_error err;

    if (atoll_cli_call(cli, "GET", "/api/templates/" RUNTIME_TEMPLATE, NULL, &reply, &err) < 0 &&
        err.kind == ATOLL_ERR_NOT_FOUND)
        (void)fputs(
            "Sandboxes have the programs of the host, whatever version of Node they ask for, until their "
            "runtimes are built:\n"
            "  atoll session create vercel-node24\n"
            "If no registry of images can be reached, make what they begin with first:\n"
            "  atoll template debian debian && atoll template tag debian bookworm\n",
            stderr);
}

static int run(struct atoll_cli *cli, const void *options, int argc ATOLL_UNUSED,
               char **argv ATOLL_UNUSED, struct atoll_error *err)
{
    const struct options *o = options;
    char preload[ATOLL_CLI_PATH_MAX] = "", url[512], key[128] = "";
    int r = o->no_preload ? 0 : find_preload(preload, sizeof(preload), err);

    if (r == 0)
        r = find_url(o, url, sizeof(url), err);
    if (r == 0)
        r = find_key(cli, o, key, sizeof(key), err);
    if (r == 0)
        r = print_env(cli, preload, url, key, err);
    if (r == ATOLL_CLI_OK && !cli->json)
        suggest_runtimes(cli);
    return r;
}

const struct atoll_cli_verb atoll_cli_vercel_env = {
    .name = "vercel env",
    .args = "[OPTION]...",
    .summary = "print shell lines with which programs for Vercel Sandbox use this daemon",
    .help = "Node loads a file that sends requests for vercel.com, api.vercel.com and\n"
            "*.vercel.run to the daemon. A key is created unless ATOLL_API_KEY is set; it is\n"
            "also in the OIDC token, which is not signed.\n"
            "\n"
            "Examples:\n"
            "  eval \"$(atoll vercel env)\"\n"
            "  node app.js\n"
            "  npx sandbox create\n",
    .options = options_table,
    .options_size = sizeof(struct options),
    .run = run,
};
