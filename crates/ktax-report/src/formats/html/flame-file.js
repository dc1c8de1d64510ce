{
  const find = document.getElementById("find");
  const ask = () => flames.mark(prompt("Which function?") ?? "");
  find.textContent = "find (/)";
  find.addEventListener("click", ask);
  addEventListener("keydown", (event) => {
    if (event.key !== "/") return;
    event.preventDefault();
    ask();
  });
}
