/* System calls for which a shell has no command, as a hostile program makes them. Built by `cc -static -o attempts attempts.c`.
 *
 *   attempts calls PROCESS DIRECTORY   each of them once, by a child: a line `went NAME` or `refused NAME: WHY`. PROCESS is another
 *                                      process of the caller's, DIRECTORY one in which it may write
 *   attempts rights                    the caller's ids and capabilities, a line each
 *   attempts sockets FIRST LAST        a line for each unix socket that takes a connection, by path or by name, and for each port of
 *                                      the loopback from FIRST to LAST
 *   attempts listen PATH NAME PORT     does that at three places until it is ended
 *   attempts capability FILE           gives a file the capability to give files away
 *
 * It decides nothing. Outside of a sandbox it changes nothing that stays: what is mounted is in a mount namespace of its own. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/perf_event.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/fanotify.h>
#include <sys/klog.h>
#include <sys/mount.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

static pid_t other;
static char own[4096];

/* A new file of its own. */
static int file(const char *name) {
    if (chdir(own)) return -1;
    unlink(name);
    return open(name, O_CREAT | O_RDWR, 0644);
}

static long do_mount(void) { return mount("none", own, "tmpfs", 0, ""); }
static long do_bind(void) { return mount("/", own, NULL, MS_BIND, NULL); }
static long do_remount(void) { return mount(NULL, "/", NULL, MS_REMOUNT | MS_BIND, NULL); }
static long do_umount(void) { return umount2("/proc", MNT_DETACH); }
static long do_fsopen(void) { return syscall(SYS_fsopen, "tmpfs", 0); }
static long do_open_tree(void) { return syscall(SYS_open_tree, AT_FDCWD, "/", 1 /* OPEN_TREE_CLONE */); }
static long do_pivot_root(void) {
    mount("none", own, "tmpfs", 0, "");
    return syscall(SYS_pivot_root, own, own);
}
static long do_chroot(void) { return chroot(own); }
static long do_user(void) { return unshare(CLONE_NEWUSER); }
static long do_mounts(void) { return unshare(CLONE_NEWNS); }
static long do_network(void) { return unshare(CLONE_NEWNET); }
static long do_pids(void) { return unshare(CLONE_NEWPID); }
static long do_ipc(void) { return unshare(CLONE_NEWIPC); }
static long do_uts(void) { return unshare(CLONE_NEWUTS); }
static long do_cgroup(void) { return unshare(CLONE_NEWCGROUP); }
static long do_clone(void) {
    long child = syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, 0, 0, 0, 0);
    if (child == 0) _exit(0);
    return child;
}
static long do_clone3(void) {
    uint64_t arguments[8] = {CLONE_NEWUSER, 0, 0, 0, SIGCHLD};
    long child = syscall(SYS_clone3, arguments, sizeof arguments);
    if (child == 0) _exit(0);
    return child;
}
static long do_setns(void) {
    int fd = open("/proc/self/ns/net", O_RDONLY);
    return fd < 0 ? -1 : setns(fd, CLONE_NEWNET);
}
static long do_handle(void) {
    const char *places[] = {"/", own, "/dev/shm", "/proc/self"};
    for (unsigned n = 0; n < 4; n++) {
        union { struct file_handle handle; char room[sizeof(struct file_handle) + MAX_HANDLE_SZ]; } at;
        int mounted, fd = open(places[n], O_RDONLY | O_DIRECTORY);
        memset(&at, 0, sizeof at);
        at.handle.handle_bytes = MAX_HANDLE_SZ;
        if (fd < 0 || name_to_handle_at(AT_FDCWD, places[n], &at.handle, &mounted, 0)) continue;
        if (open_by_handle_at(fd, &at.handle, O_RDONLY) >= 0) return 0;
    }
    return -1;
}
static long do_keyctl(void) { return syscall(SYS_keyctl, 0, -4 /* the user's keys */, 1); }
static long do_add_key(void) { return syscall(SYS_add_key, "user", "cofferdam-attempt", "x", 1, -2 /* this process's */); }
static long do_bpf(void) {
    uint32_t map[18] = {2 /* an array */, 4, 8, 1};
    return syscall(SYS_bpf, 0, map, sizeof map);
}
static long do_perf(void) {
    struct perf_event_attr event = {.type = PERF_TYPE_SOFTWARE, .size = sizeof event, .exclude_kernel = 1};
    return syscall(SYS_perf_event_open, &event, 0, -1, -1, 0);
}
static long do_userfaultfd(void) { return syscall(SYS_userfaultfd, 0); }
static long do_aio(void) {
    unsigned long context = 0;
    return syscall(SYS_io_setup, 1, &context);
}
static long do_uring(void) {
    char parameters[120] = {0};
    return syscall(SYS_io_uring_setup, 1, parameters);
}
static long do_trace(void) { return ptrace(PTRACE_SEIZE, other, 0, 0); }
static long do_memory(void) {
    char byte;
    /* Its mappings are nobody's secret where it may be read at all: any of them does. */
    char path[64], line[256];
    snprintf(path, sizeof path, "/proc/%d/maps", other);
    FILE *maps = fopen(path, "r");
    if (!maps || !fgets(line, sizeof line, maps)) return -1;
    struct iovec here = {&byte, 1}, there = {(void *)strtoul(line, NULL, 16), 1};
    return process_vm_readv(other, &here, 1, &there, 1, 0);
}
static long do_descriptor(void) {
    int process = syscall(SYS_pidfd_open, other, 0);
    return process < 0 ? -1 : syscall(SYS_pidfd_getfd, process, 0, 0);
}
static long do_compare(void) { return syscall(SYS_kcmp, getpid(), other, 1 /* files */, 0, 0); }
static long do_syslog(void) {
    char text[64];
    return klogctl(3, text, sizeof text);
}
static long do_fanotify(void) { return fanotify_init(FAN_CLASS_CONTENT, O_RDONLY); }
static long do_hostname(void) {
    char name[65];
    return gethostname(name, sizeof name) ? -1 : sethostname(name, strlen(name));
}
static long do_root(void) { return setresuid(0, 0, 0); }
static long do_groups(void) { return setgroups(0, NULL); }
static long do_character(void) { chdir(own); return mknod("null", S_IFCHR | 0644, 0x103); }
static long do_block(void) { chdir(own); return mknod("disk", S_IFBLK | 0644, 0x700); }
static long do_set_user_id(void) { int fd = file("user"); return fd < 0 ? -1 : fchmod(fd, 04755); }
static long do_set_group_id(void) { int fd = file("group"); return fd < 0 ? -1 : fchmod(fd, 02755); }
static long do_capability(void) {
    struct vfs_cap_data all = {VFS_CAP_REVISION_2 | VFS_CAP_FLAGS_EFFECTIVE, {{1u << CAP_CHOWN, 0}, {0, 0}}};
    int fd = file("capable");
    return fd < 0 ? -1 : fsetxattr(fd, "security.capability", &all, sizeof all, 0);
}
static long do_lease(void) { close(file("leased")); return fcntl(open("leased", O_RDONLY), F_SETLEASE, F_RDLCK); }
static long do_packet(void) { return socket(AF_PACKET, SOCK_RAW, 0x300); }
static long do_raw(void) { return socket(AF_INET, SOCK_RAW, IPPROTO_TCP); }
static long do_alg(void) { return socket(AF_ALG, SOCK_SEQPACKET, 0); }

static const struct { const char *name; long (*call)(void); } CALLS[] = {
    {"mount", do_mount}, {"bind", do_bind}, {"remount", do_remount}, {"umount", do_umount}, {"fsopen", do_fsopen},
    {"open_tree", do_open_tree}, {"pivot_root", do_pivot_root}, {"chroot", do_chroot}, {"unshare-user", do_user},
    {"unshare-mounts", do_mounts}, {"unshare-network", do_network}, {"unshare-pids", do_pids}, {"unshare-ipc", do_ipc},
    {"unshare-uts", do_uts}, {"unshare-cgroup", do_cgroup}, {"clone-user", do_clone}, {"clone3-user", do_clone3},
    {"setns", do_setns}, {"open_by_handle_at", do_handle}, {"keyctl", do_keyctl}, {"add_key", do_add_key}, {"bpf", do_bpf},
    {"perf_event_open", do_perf}, {"userfaultfd", do_userfaultfd}, {"io_setup", do_aio}, {"io_uring_setup", do_uring},
    {"ptrace", do_trace}, {"process_vm_readv", do_memory}, {"pidfd_getfd", do_descriptor}, {"kcmp", do_compare},
    {"syslog", do_syslog}, {"fanotify_init", do_fanotify}, {"sethostname", do_hostname}, {"setresuid", do_root},
    {"setgroups", do_groups}, {"mknod-character", do_character}, {"mknod-block", do_block}, {"set-user-id", do_set_user_id},
    {"set-group-id", do_set_group_id}, {"capability", do_capability}, {"lease", do_lease}, {"socket-packet", do_packet},
    {"socket-raw", do_raw}, {"socket-alg", do_alg},
};

/* Each in a child, which one that makes it root of a namespace would change. */
static int calls(void) {
    for (unsigned n = 0; n < sizeof CALLS / sizeof *CALLS; n++) {
        fflush(stdout);
        pid_t child = fork();
        if (child == 0) {
            /* Whoever may mount has mounts of their own first: nothing that is tried here stays. */
            if (geteuid() == 0 && (unshare(CLONE_NEWNS) || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL)) && n < 8) {
                printf("refused %s: no mounts of its own\n", CALLS[n].name);
                exit(0);
            }
            errno = 0;
            long done = CALLS[n].call();
            if (done >= 0) printf("went %s\n", CALLS[n].name);
            else printf("refused %s: %s\n", CALLS[n].name, strerror(errno));
            exit(0);
        }
        int status = 0;
        waitpid(child, &status, 0);
        if (WIFSIGNALED(status)) printf("refused %s: signal %d\n", CALLS[n].name, WTERMSIG(status));
    }
    return 0;
}

static int rights(void) {
    char line[256];
    FILE *status = fopen("/proc/self/status", "r");
    while (status && fgets(line, sizeof line, status))
        if (!strncmp(line, "Uid:", 4) || !strncmp(line, "Gid:", 4) || !strncmp(line, "Cap", 3)) fputs(line, stdout);
    return status ? 0 : 1;
}

static int takes(const struct sockaddr *to, socklen_t length, int family) {
    int fd = socket(family, SOCK_STREAM | SOCK_NONBLOCK, 0);
    int done = fd < 0 ? -1 : connect(fd, to, length);
    /* One whose queue is full is there. */
    int there = !done || errno == EAGAIN || errno == EPROTOTYPE;
    close(fd);
    return there;
}

static int walked(const char *path, const struct stat *found, int kind, struct FTW *at) {
    (void)kind, (void)at;
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    if (!strcmp(path, "/proc") || !strcmp(path, "/sys")) return FTW_SKIP_SUBTREE;
    if (S_ISSOCK(found->st_mode) && strlen(path) < sizeof to.sun_path) {
        strcpy(to.sun_path, path);
        if (takes((struct sockaddr *)&to, sizeof to, AF_UNIX)) printf("%s\n", path);
    }
    return FTW_CONTINUE;
}

static int sockets(int first, int last) {
    char line[512];
    nftw("/", walked, 64, FTW_PHYS | FTW_ACTIONRETVAL);
    FILE *all = fopen("/proc/net/unix", "r");
    while (all && fgets(line, sizeof line, all)) {
        char *name = strrchr(line, ' ');
        line[strcspn(line, "\n")] = 0;
        if (!name || name[1] != '@') continue;
        struct sockaddr_un to = {.sun_family = AF_UNIX};
        size_t length = strlen(name + 2);
        if (length >= sizeof to.sun_path) continue;
        memcpy(to.sun_path + 1, name + 2, length);
        if (takes((struct sockaddr *)&to, offsetof(struct sockaddr_un, sun_path) + 1 + length, AF_UNIX)) printf("%s\n", name + 1);
    }
    for (int port = first; port <= last; port++) {
        struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr = {htonl(INADDR_LOOPBACK)}};
        int fd = socket(AF_INET, SOCK_STREAM, 0);
        struct sockaddr_in from = {0};
        socklen_t length = sizeof from;
        /* Of the loopback each answer comes at once. One that has the port itself now and then meets itself. */
        if (fd >= 0 && !connect(fd, (struct sockaddr *)&to, sizeof to) && !getsockname(fd, (struct sockaddr *)&from, &length)
            && from.sin_port != to.sin_port)
            printf("port %d\n", port);
        close(fd);
    }
    return 0;
}

static int listens(const char *path, const char *name, int port) {
    struct sockaddr_un by_path = {.sun_family = AF_UNIX}, by_name = {.sun_family = AF_UNIX};
    struct sockaddr_in by_port = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr = {htonl(INADDR_LOOPBACK)}};
    strncpy(by_path.sun_path, path, sizeof by_path.sun_path - 1);
    strncpy(by_name.sun_path + 1, name, sizeof by_name.sun_path - 2);
    int fds[] = {socket(AF_UNIX, SOCK_STREAM, 0), socket(AF_UNIX, SOCK_STREAM, 0), socket(AF_INET, SOCK_STREAM, 0)};
    if (bind(fds[0], (struct sockaddr *)&by_path, sizeof by_path)
        || bind(fds[1], (struct sockaddr *)&by_name, offsetof(struct sockaddr_un, sun_path) + 1 + strlen(name))
        || bind(fds[2], (struct sockaddr *)&by_port, sizeof by_port))
        return perror("bind"), 1;
    for (int n = 0; n < 3; n++)
        if (listen(fds[n], 64)) return perror("listen"), 1;
    puts("listens");
    fflush(stdout);
    pause();
    return 0;
}

int main(int count, char **words) {
    if (count == 4 && !strcmp(words[1], "calls")) {
        other = atoi(words[2]);
        snprintf(own, sizeof own, "%s", words[3]);
        return calls();
    }
    if (count == 2 && !strcmp(words[1], "rights")) return rights();
    if (count == 4 && !strcmp(words[1], "sockets")) return sockets(atoi(words[2]), atoi(words[3]));
    if (count == 5 && !strcmp(words[1], "listen")) return listens(words[2], words[3], atoi(words[4]));
    if (count == 3 && !strcmp(words[1], "capability")) {
        struct vfs_cap_data all = {VFS_CAP_REVISION_2 | VFS_CAP_FLAGS_EFFECTIVE, {{1u << CAP_CHOWN, 0}, {0, 0}}};
        return setxattr(words[2], "security.capability", &all, sizeof all, 0) ? (perror(words[2]), 1) : 0;
    }
    fputs("usage: attempts calls PROCESS DIRECTORY | rights | sockets FIRST LAST | listen PATH NAME PORT | capability FILE\n", stderr);
    return 2;
}
