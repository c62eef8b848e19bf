# In the place of oh-my-zsh where that could not be fetched: it loads a user's plugins, files and theme as oh-my-zsh does.
autoload -Uz compinit colors vcs_info add-zsh-hook
colors
setopt prompt_subst auto_cd interactive_comments

for plugin in $plugins; do
    [[ -d $ZSH_CUSTOM/plugins/$plugin ]] && fpath=("$ZSH_CUSTOM/plugins/$plugin" $fpath)
done
compinit -u -d "${ZSH_COMPDUMP:-$HOME/.zcompdump}"

# What themes ask.
ZSH_THEME_GIT_PROMPT_PREFIX='git:(' ZSH_THEME_GIT_PROMPT_SUFFIX=')'
ZSH_THEME_GIT_PROMPT_DIRTY='*' ZSH_THEME_GIT_PROMPT_CLEAN=''
git_current_branch() { command git symbolic-ref --quiet --short HEAD 2>/dev/null || command git rev-parse --short HEAD 2>/dev/null; }
parse_git_dirty() {
    if [[ -n $(command git status --porcelain --ignore-submodules=dirty 2>/dev/null | head -n 1) ]]; then
        print -n -- "$ZSH_THEME_GIT_PROMPT_DIRTY"
    else
        print -n -- "$ZSH_THEME_GIT_PROMPT_CLEAN"
    fi
}
git_prompt_info() {
    local branch
    branch=$(git_current_branch) || return 0
    print -n -- "$ZSH_THEME_GIT_PROMPT_PREFIX${branch//\%/%%}$(parse_git_dirty)$ZSH_THEME_GIT_PROMPT_SUFFIX"
}

for plugin in $plugins; do
    [[ -r $ZSH_CUSTOM/plugins/$plugin/$plugin.plugin.zsh ]] && source "$ZSH_CUSTOM/plugins/$plugin/$plugin.plugin.zsh"
done
for file in "$ZSH_CUSTOM"/*.zsh(N); do source "$file"; done
unset plugin file

PROMPT='%B%F{green}%1~%f%b $(git_prompt_info)%(?..%F{red})%#%f '
for theme in "$ZSH_CUSTOM/$ZSH_THEME.zsh-theme" "$ZSH_CUSTOM/themes/$ZSH_THEME.zsh-theme"; do
    if [[ -n $ZSH_THEME && -r $theme ]]; then
        source "$theme"
        break
    fi
done
unset theme
