# The man page and the completion scripts of the command, which it prints of its own table; installed where shells look.
# Where the command is built for another machine it cannot be run here, and an installation goes without them.
if(CMAKE_CROSSCOMPILING)
  return()
endif()
set(command_texts "")
function(tenure_command_text output)  # OUTPUT ARGUMENTS: what the command prints with these
  set(path ${TENURE_GENERATED}/command/${output})
  add_custom_command(OUTPUT ${path} COMMAND tenure_tool ${ARGN} > ${path} DEPENDS tenure_tool VERBATIM)
  set(command_texts ${command_texts} ${path} PARENT_SCOPE)
endfunction()
file(MAKE_DIRECTORY ${TENURE_GENERATED}/command)
tenure_command_text(tenure.1 man)
tenure_command_text(tenure completion bash)
tenure_command_text(_tenure completion zsh)
tenure_command_text(tenure.fish completion fish)
add_custom_target(command_texts ALL DEPENDS ${command_texts})
function(install_text name folder)
  install(FILES ${TENURE_GENERATED}/command/${name} DESTINATION ${folder} ${ARGN})
endfunction()
install_text(tenure.1 ${CMAKE_INSTALL_MANDIR}/man1 COMPONENT tenure)
install_text(tenure ${CMAKE_INSTALL_DATADIR}/bash-completion/completions COMPONENT tenure)
install_text(tenure.fish ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d COMPONENT tenure)
install_text(_tenure ${CMAKE_INSTALL_DATADIR}/zsh/site-functions COMPONENT local)  # what is no package
install_text(_tenure ${CMAKE_INSTALL_DATADIR}/zsh/vendor-completions COMPONENT tenure EXCLUDE_FROM_ALL)  # Debian's
